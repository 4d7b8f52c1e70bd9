// Asks a server as GitHub's own client does: octokit with its throttling plugin. It prints a
// line for each denial that the plugin sees, with the wait in seconds, and one for the end.
//
//	node octokit.mjs URL TOKEN REQUESTS
import { Octokit } from "@octokit/core";
import { throttling } from "@octokit/plugin-throttling";

const [baseUrl, token, requests] = process.argv.slice(2);
const seen = (kind) => (wait, options, octokit, retries) => {
  console.log(kind, wait);
  return kind === "secondary" && retries < 10; // the plugin waits and sends it again
};
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const octokit = new (Octokit.plugin(throttling))({
  baseUrl,
  auth: token || undefined,
  log: silent,
  throttle: { onRateLimit: seen("primary"), onSecondaryRateLimit: seen("secondary") },
});
let status = 0;
for (let i = 0; i < Number(requests); i++) {
  try {
    status = (await octokit.request("GET /repos/ann/weir/issues")).status;
  } catch (error) {
    status = error.status;
  }
}
console.log("last", status);
process.exit(0);
