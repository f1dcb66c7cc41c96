"""The profile language: what a text means to the simulator, and what of it may run.

`grammar` splits a text into tokens exactly as the simulator does, so no spelling evades the rules that follow.
`policy` decides which options may run, `mistakes` explains lines that the simulator would misread, and
`analysis` (start here) reads a text once: its actors, profilesets, numbers and refusals. `numbers` applies the
platform's limits, and `plots` counts the simulations that plots need.

The other modules change or explain texts: `includes` replaces the names of bundled files (`bundle`) by the
files, `selection` leaves out profilesets, `fight_options` reads and writes the fight and its precision, `places`
finds the line that a message is about, and `diff` compares two texts.

Promised: any text is read in time that grows with its length, and `analyse` never raises. Not promised: that a
profile without refusals runs; only the simulator knows all options.
"""
