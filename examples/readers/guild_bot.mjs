// Print the message that a guild bot posts about a report. Needs Node 18 or newer.
//
//   node guild_bot.mjs https://sim.example.com/share/q7VvT0m1xk2bY9d4sLwJ3A

const link = process.argv[2];
const response = await fetch(`${link}/data.json`);
if (!response.ok) {
  console.error(`${response.status}: ${(await response.json()).error ?? response.statusText}`);
  process.exit(1);
}
const { sim, simbot } = await response.json();
const [player, ...others] = sim.players;
const baseline = player.collected_data.dps?.mean ?? 0;
const results = sim.profilesets?.results ?? [];
const lines = [
  `**${simbot.title}** on ${new Date(simbot.date).toISOString().slice(0, 10)}`,
  `${player.name}: ${Math.round(baseline)} DPS${others.length ? `, with ${others.length} more` : ""}`,
];
if (results.length) {
  const best = results.reduce((a, b) => (b.mean > a.mean ? b : a));
  // A job that was stopped early may not have simulated the baseline.
  const gain = baseline ? ` (${((best.mean / baseline - 1) * 100).toFixed(1)} %)` : "";
  lines.push(`Best of ${results.length}: ${best.name}${gain}`);
}
if (simbot.meta.partial) lines.push("The simulation was stopped early.");
console.log(lines.join("\n"));
