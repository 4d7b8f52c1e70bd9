// Package admin serves a page for the operators of a service. The page shows which rules deny,
// which keys, and since when. It explains why a request was limited, and can change a rule for the
// next hour.
//
//	page, err := admin.New(who, admin.Sources{
//		Stats:    counts,                                  // of package stats
//		Limiters: map[string]admin.Limiter{"api": limit}, // by the names they have there
//		Policy:   status,                                  // of package policy; may be nil
//	}, admin.Options{Instance: "eu-1"})
//
// Serve it on an address of its own, such as 127.0.0.1:8081, or under any path of another server by
// [http.StripPrefix]: the page uses only relative links and contacts no other host. It shows one
// process, and says so.
//
// # Access and changes
//
// The program must supply a function that identifies the sender of each request: see [Person]. The
// page is read-only unless [Options].Changes is set and the person may make changes. Changes are
// overrides in this process. They end by themselves, after an hour by default and after a day at
// most. Forgiving a key resets its state in the backend. Each change is logged without its key, and
// passed to [Options].Audit with the key as the page shows it. The end of an override is logged, too.
//
// Requests for a host that is not in [Options].Hosts are refused, so a foreign name that resolves
// to this address does not reach the page (DNS rebinding). Changes are POST and PUT requests with
// content application/json, at most 64 KiB, and DELETE, from the page's own origin
// ([http.CrossOriginProtection]).
// The Content-Security-Policy allows scripts, styles and requests of this origin only, and requires
// Trusted Types. Nothing is cached.
//
// Keys may identify people: they are masked unless [Options].Keys says otherwise, and they are
// never in a URL.
//
// # Without the page
//
// Programs can use the page's API. GET: api/session, api/snapshot, api/earlier (a snapshot from
// some seconds ago, without keys), api/history, api/denials. POST, with a JSON object of these
// fields:
//
//	api/explain  Key, or ID, or Request; Rule ("": all); Limit, for rules with a LimitFor
//	api/forgive  Rule and Key, or ID; Why
//	api/mode     Rule; Mode, such as "enforce 25%"; Minutes; Why
//	api/limit    Rule; Limit, such as "100/minute"; Minutes; Why
//	api/clear    Rule; Why
//
// Each also has Limiter, which may be absent if there is only one. A Key is the value that the
// rule's key function returns. An ID names a row of api/snapshot or api/denials, for some time.
// Minutes are 1 to 1440, or 60 if absent. A Request has Method, Path, Host, Address, Route and
// Headers, a list of pairs. Explaining takes no units and changes nothing. Times in these answers are
// milliseconds since the Unix epoch, waits are microseconds.
//
// An override has a URL of its own, for GET, PUT and DELETE; GET api/overrides lists those in force:
//
//	api/overrides/LIMITER/RULE         Mode; Limit; Until; Why
//	api/overrides/LIMITER/RULE/DIGEST  of one key: Key, Limit; Until; Why
//
// DIGEST is the first 32 digits of the SHA-256 of Key, or Key itself if it is such a digest, or an ID,
// without Key. Until is a time in RFC 3339, or a duration such as "90m". PUT replaces the whole
// override: what is absent is that of the rule. A PUT that changes nothing is not logged. ETag,
// If-Match and If-None-Match keep programs from undoing each other's changes.
//
// A request that is refused is answered with a problem document (RFC 9457), which has the reason
// as detail and as Error.
package admin
