"""The picture of a job for link previews (`docs/reference/api.md#picture`).

Three steps: `content` decides what the picture says, `drawing` draws it, and `view` sends it to anyone with the
share link. Equal content has an equal entity tag, so a client that has the picture gets no new one.

A process draws one picture at a time, which bounds its memory. Other requests wait for a second, and are then asked
to try again. Texts are untrusted: they are cleaned and cut, so a hostile name changes only its own line. Scripts
that the font lacks appear as boxes.

Start with `content.py`.
"""
