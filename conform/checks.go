package conform

import "slices"

// Check is one thing that a limiter is held against.
type Check struct {
	Name   string // such as "burst"
	Says   string // what holds, in a sentence
	Source string // the document and section that says so
	Why    string // why it matters to a user

	timing timing
	run    func(t *trial) outcome
}

// timing says when a check runs.
type timing uint8

const (
	parallel timing = iota // at the same time as others
	alone                  // at a time of its own, since others would slow it
	last                   // alone and after all others, since it stops or fills the server
)

// Checks returns all checks in the order of reports.
func Checks() []Check { return slices.Clone(checks) }

// checkNames returns the names of all checks.
func checkNames() (names []string) {
	for i := range checks {
		names = append(names, checks[i].Name)
	}
	return names
}

// indexOf returns the place of a check, or -1.
func indexOf(name string) int {
	return slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
}

// checks are all checks in the order of reports. A new check is a row here and its function.
var checks = []Check{{
	Name: "burst", Says: "64 requests at once on a fresh key admit exactly the burst of the limit",
	Source: "the promise of the profile", timing: alone,
	Why: "A limiter that reads a count, compares it and writes it back in two steps admits all that come in " +
		"between: 60 of 60 at a limit of 30 were seen. A client that opens many connections then has no limit. One " +
		"that admits fewer than it says denies clients that obey.",
	run: checkBurst,
}, {
	Name: "interval", Says: "no interval of the length of the period has more admitted than the algorithm allows",
	Source: "docs/DESIGN.md, section 5, which defines the algorithms",
	Why: "Windows admit twice their limit to a client that knows when they turn, and a bucket its burst and a " +
		"period's worth. What is behind the limiter has to bear that. The figure is what a hostile client gets.",
	run: checkInterval,
}, {
	Name: "model", Says: "random requests are answered as by the named algorithm, to the millisecond",
	Source: "docs/DESIGN.md, section 5",
	Why: "A window that turns late, a bucket that refills in steps or a count that is lost denies clients that " +
		"obey, or admits too much, at instants that no short test meets. The first request with another answer is " +
		"shown with all before it.",
	run: checkModel,
}, {
	Name: "retry-after", Says: "a request at the time that Retry-After tells is admitted",
	Source: "RFC 9110, section 10.2.3; RFC 6585, section 4",
	Why: "Clients sleep as long as they are told. Told too little, they are denied again, and many give up after a " +
		"few tries. Told too much, they stand still though they might work.",
	run: checkRetryAfter,
}, {
	Name: "denied", Says: "denied requests count as the profile says; if it says nothing, they do not count",
	Source: "the promise of the profile",
	Why: "Where denied requests count, a client that tries too early is locked out for as long as it tries, and " +
		"a program with a retry loop never comes back.",
	run: checkDenied,
}, {
	Name: "status", Says: "a denial has the status that the profile tells",
	Source: "RFC 6585, section 4: 429 Too Many Requests",
	Why:    "Clients wait and retry after a 429. After a 403 they give up, and after a 500 they alarm someone.",
	run:    checkStatus,
}, {
	Name: "syntax", Says: "the fields of a hundred answers are written as the document of their dialect says",
	Source: "RFC 9110, section 10.2.3, for Retry-After; the draft of the dialect, and RFC 9651 for its syntax",
	Why: "A client ignores a malformed field whole, so it has no warning. Retry-After on an answer that is no " +
		"denial is allowed, and makes a client that obeys wait for nothing: the report states it.",
	run: checkSyntax,
}, {
	Name: "quota", Says: "the told limit and window are those that are promised",
	Source: "draft-ietf-httpapi-ratelimit-headers-11, sections 3.1.1 and 3.1.3; -06, sections 3.1 and 3.2",
	Why:    "Clients plan by the quota: one that is told too much sends too fast from the start.",
	run:    checkQuota,
}, {
	Name: "remaining", Says: "after each of a hundred requests as many more are admitted as it tells, and no more",
	Source: "draft-ietf-httpapi-ratelimit-headers-11, section 4.1.1; -06, section 3.3",
	Why: "A client that is told one too many runs into a denial it wanted to avoid. One that is told too few " +
		"leaves a part of its limit unused.",
	run: checkRemaining,
}, {
	Name: "reset", Says: "a request at the reset that a denial tells is admitted",
	Source: "draft-ietf-httpapi-ratelimit-headers-11, section 4.1.2; -06, section 3.4",
	Why:    "Clients that read no Retry-After wait for the reset, with the same effects if it is wrong.",
	run:    checkReset,
}, {
	Name: "wobble", Says: "denials in a row tell one instant, rounded in one way",
	Source: "RFC 9110, section 10.2.3; draft-ietf-httpapi-ratelimit-headers-11, section 4.1.2",
	Why: "A reset that moves by a second between two answers looks like a new window to a client that computes " +
		"by it, and makes it come a second early now and then.",
	run: checkWobble,
}, {
	Name: "head", Says: "HEAD counts as GET does",
	Source: "RFC 9110, section 9.3.2: a HEAD is a GET without content",
	Why:    "A handler does the work of a GET for a HEAD. If HEAD is free, the limit does not protect the handler.",
	run:    checkHead,
}, {
	Name: "options", Says: "OPTIONS is denied where GET is",
	Source: "RFC 9110, section 9.3.7: OPTIONS asks for no action",
	Why: "Preflights of browsers are often exempt on purpose, and then they must be answered without any work. " +
		"The report states which it is.",
	run: checkOptions,
}, {
	Name: "http2", Says: "requests by HTTP/2 and HTTP/1.1 count together",
	Source: "RFC 9110, section 2.5: the semantics of HTTP are the same in all its versions",
	Why:    "A limit for each protocol is twice the limit.",
	run:    checkHTTP2,
}, {
	Name: "key-apart", Says: "keys that differ in a letter, or in its case, count apart",
	Source: "the promise of the profile",
	Why: "A key that is lower-cased, cut or escaped before it is counted lets one client use up the limit of " +
		"another.",
	run: checkApart,
}, {
	Name: "key-spelling", Says: "two spellings of one address count together",
	Source: "RFC 4291, section 2.2; RFC 5952",
	Why:    "A client that can write its address in n ways has n limits.",
	run:    checkSpelling,
}, {
	Name: "key-forged", Says: "what a client invents about its address changes nothing",
	Source: "RFC 7239, section 8.1",
	Why: "A limiter that believes X-Forwarded-For from anyone has as many limits for a client as it can invent " +
		"addresses.",
	run: checkForged,
}, {
	Name: "key-ipv6", Says: "addresses of one /64 count together, or the report says how many are admitted",
	Source: "RFC 4291, section 2.5.1; RFC 6177",
	Why:    "The smallest network that an IPv6 client gets has 2^64 addresses, so a limit by address is none.",
	run:    checkIPv6,
}, {
	Name: "key-empty", Says: "requests without a key, or with an empty one, have a limit or are refused",
	Source: "the promise of the profile",
	Why:    "A limiter that skips requests without a key is switched off by leaving out a header.",
	run:    checkEmpty,
}, {
	Name: "key-long", Says: "two keys of 10 kB that differ in their last character count apart, or are refused",
	Source: "RFC 9110, section 5.4; RFC 6585, section 5: a key that is too long is refused",
	Why:    "Keys that are cut or hashed badly let clients use up the limits of others. Long keys fill the store.",
	run:    checkLong,
}, {
	Name: "instances", Says: "two servers on one store admit the limit together",
	Source: "the promise of the profile", timing: last,
	Why: "Two steps at the store, or counts that are written back late, admit the limit once for each server.",
	run: checkInstances,
}, {
	Name: "restart", Says: "a restart of the server leaves the counts of a shared store alone",
	Source: "the promise of the profile", timing: last,
	Why: "A count that is kept in the process is lost with each deployment. The report states what a restart gives.",
	run: checkRestart,
}, {
	Name: "store", Says: "after the store was away the limit works again; the report says what happens meanwhile",
	Source: "the promise of the profile", timing: last,
	Why: "A limiter whose store is away admits all, denies all or waits. Which one it is decides whether an outage " +
		"of Redis is an outage of the service.",
	run: checkStore,
}, {
	Name: "memory", Says: "the report says how much memory keys take, and whether they keep it after their time",
	Source: "the promise of the profile", timing: last,
	Why: "A client that invents keys fills a limiter that forgets none, until the process ends.",
	run: checkMemory,
}}
