// Verify webhooks in Node, without dependencies.
//
// Call `verify` with the raw body as a Buffer, before anything parses it. A body that was parsed and serialized again
// can differ. With Express, use `express.raw({ type: "application/json" })` on the route.

const { createHmac, timingSafeEqual } = require("node:crypto");

const TOLERANCE_SECONDS = 300;

// Return whether a body was signed with the secret, at most five minutes ago. `signature` is the header
// X-Service-Signature, `t=…,v1=…`. During the overlap of a rotation, it has one `v1` for each of the two secrets; one of
// them must match.
function verify(secret, signature, body, now = Date.now() / 1000) {
  const parts = String(signature).split(",").map((part) => part.trim().split("="));
  const times = parts.filter(([name]) => name === "t").map(([, value]) => value ?? "");
  const digests = parts.filter(([name]) => name === "v1").map(([, value]) => value ?? "");
  // Anyone can sign with an empty secret.
  if (!secret || times.length !== 1 || !/^[0-9]+$/.test(times[0]) || digests.length === 0) {
    return false;
  }
  if (Math.abs(now - Number(times[0])) > TOLERANCE_SECONDS) {
    return false;
  }
  const expected = createHmac("sha256", secret).update(`${times[0]}.`).update(body).digest("hex");
  return digests.some((digest) => isSame(Buffer.from(digest), Buffer.from(expected)));
}

function isSame(one, other) {
  return one.length === other.length && timingSafeEqual(one, other);
}

module.exports = { verify };
