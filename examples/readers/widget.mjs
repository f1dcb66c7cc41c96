// Show a report on a page of another site: scripts on any site can read the files under a share link.
//
//   <p id="sim"></p>
//   <script type="module">
//     import { follow } from "./widget.mjs";
//     follow("https://sim.example.com/share/…", (text) => { document.getElementById("sim").textContent = text; });
//   </script>

/** Return a report and its tag, or null if it still has this `tag`. */
export async function read(link, tag = "") {
  const response = await fetch(`${link}/data.json`, { headers: tag ? { "If-None-Match": tag } : {} });
  if (response.status === 304) return null;
  if (!response.ok) throw new Error(`The report is not available: ${response.status}`);
  return { report: await response.json(), tag: response.headers.get("ETag") };
}

/** Return one line about a report. */
export function describe({ sim, simbot }) {
  const results = [...(sim.profilesets?.results ?? [])].sort((a, b) => b.mean - a.mean);
  const dps = Math.round(sim.players[0].collected_data.dps?.mean ?? 0);
  return `${simbot.title}: ${dps} DPS${results.length ? `, best of ${results.length}: ${results[0].name}` : ""}`;
}

/** Show a report now and after each change. Return a function that stops the updates. */
export async function follow(link, show, seconds = 60) {
  let tag = "";
  const update = async () => {
    const found = await read(link, tag);
    if (found === null) return;
    tag = found.tag;
    show(describe(found.report));
  };
  await update();
  const timer = setInterval(update, seconds * 1000);
  return () => clearInterval(timer);
}
