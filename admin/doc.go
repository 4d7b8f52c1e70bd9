// Package admin serves a page for the people who operate a service: which rule denies, whom
// and since when, why a request was limited, and what to do about it for the next hour.
//
//	page, err := admin.New(who, admin.Sources{
//		Stats:    counts,                                  // of package stats
//		Limiters: map[string]admin.Limiter{"api": limit}, // by the names they have there
//		Policy:   status,                                  // of package policy; may be nil
//	}, admin.Options{Instance: "eu-1"})
//
// Serve it on an address of its own, such as 127.0.0.1:8081, or under any path of another
// server by [http.StripPrefix]: the page uses relative links alone and asks no other host.
// It speaks of one process, and says so.
//
// # Who may see it, and who may change what
//
// There is no page without a function that says who asks: see [Person]. The page is
// read-only unless [Options].Changes is set and the person may change things. Changes are
// overrides of this process: they end by themselves, after an hour or a day at most. To
// forgive a key makes its state fresh in the backend. Each change is logged, without its
// key, and given to [Options].Audit with the key as the page shows it.
//
// Requests for another host than [Options].Hosts are refused, so no name that somebody
// points at this address reaches the page (DNS rebinding). Changes are POST requests with
// content application/json, at most 64 KiB, and from the page's own origin
// ([http.CrossOriginProtection]). The Content-Security-Policy allows scripts, styles and
// requests of this origin only, and requires Trusted Types. Nothing is cached.
//
// Keys may identify people: they are masked unless [Options].Keys says otherwise, and never
// in a URL.
//
// # Without the page
//
// The page reads these, and so can a program. GET: api/session, api/snapshot, api/earlier (a
// snapshot of some seconds before, without keys), api/history, api/denials. POST, with a JSON
// object of these fields:
//
//	api/explain  Key, or ID, or Request; Rule ("": all); Limit, for rules with a LimitFor
//	api/forgive  Rule and Key, or ID; Why
//	api/mode     Rule; Mode, such as "enforce 25%"; Minutes; Why
//	api/limit    Rule; Limit, such as "100/minute"; Minutes; Why
//	api/clear    Rule; Why
//
// Each has Limiter, too, which may be absent if there is one. A Key is what the rule's key
// function returns; an ID names a row of api/snapshot or api/denials, for some time. Minutes
// are 1 to 1440, or 60 if absent. A Request has Method, Path, Host, Address, Route and
// Headers, a list of pairs. To explain takes nothing and is no change. An answer with another
// status than 200 has an Error. Times in answers are milliseconds since the Unix epoch,
// waits are microseconds.
package admin
