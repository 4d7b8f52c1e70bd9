package headers

import "fmt"

// Format is a set of header fields.
type Format uint8

const (
	// IETF is RateLimit and RateLimit-Policy as in
	// draft-ietf-httpapi-ratelimit-headers-11. When a later draft changes them
	// IETF will follow it, and what it is today will be had under a name of its
	// own, as Draft7 is.
	IETF Format = iota + 1

	// Draft7 is RateLimit and RateLimit-Policy as they were in draft -07 alone,
	// a Dictionary and a List of Integers.
	Draft7

	// Draft6 is RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset (seconds
	// to go) and RateLimit-Policy, as in drafts -04 to -06.
	Draft6

	// GitHub is X-RateLimit-Limit, -Remaining, -Used, -Reset (seconds since the
	// Unix epoch) and -Resource (the rule's name), as GitHub sends them.
	GitHub

	// DeltaSeconds is X-RateLimit-Limit, -Remaining and -Reset (seconds to go).
	DeltaSeconds

	// Discord is X-RateLimit-Limit, -Remaining, -Reset (seconds since the Unix
	// epoch), -Reset-After (seconds to go) and -Bucket (the rule's name), as
	// Discord sends them: the seconds have decimals. A denial also has -Scope
	// and, if that is global, -Global. See [Options.DiscordShared].
	Discord

	// EpochSeconds is X-RateLimit-Limit, -Remaining and -Reset (seconds since the
	// Unix epoch), as httprate, ulule/limiter and many others send them: those of
	// GitHub without -Used and -Resource.
	EpochSeconds
)

var formatNames = [...]string{
	IETF:         "IETF",
	Draft7:       "Draft7",
	Draft6:       "Draft6",
	GitHub:       "GitHub",
	DeltaSeconds: "DeltaSeconds",
	Discord:      "Discord",
	EpochSeconds: "EpochSeconds",
}

// String returns the name of the constant.
func (f Format) String() string {
	if f.known() {
		return formatNames[f]
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

func (f Format) known() bool { return f >= IETF && f <= EpochSeconds }

// conflicts are the pairs of formats that one answer cannot carry. IETF and
// Draft6 are not among them: they share RateLimit-Policy alone, which is then
// that of IETF, and the three fields of Draft6 stand without it.
var conflicts = [...]struct {
	a, b Format
	why  string
}{
	{IETF, Draft7, "both use RateLimit and RateLimit-Policy with different types"},
	{GitHub, DeltaSeconds, "both use X-RateLimit-Reset with different units"},
	{GitHub, Discord, "both use X-RateLimit-Reset with different precision"},
	{DeltaSeconds, Discord, "both use X-RateLimit-Reset with different units"},
	{GitHub, EpochSeconds, "both use X-RateLimit-Limit, -Remaining and -Reset"},
	{DeltaSeconds, EpochSeconds, "both use X-RateLimit-Reset with different units"},
	{Discord, EpochSeconds, "both use X-RateLimit-Reset with different precision"},
}

// Show says on which answers a [Writer] puts the fields of its formats.
// Retry-After is on every answer that is not allowed, whatever Show is. [Options].Custom is
// called on the answers on which the fields are. What an outer limiter has written stays.
type Show uint8

const (
	// Always puts them on every answer, allowed or denied, with all rules.
	Always Show = iota
	// OnDenial puts them on denials only, with the rules that denied and no
	// other, as for a login route that need not publish its budgets.
	OnDenial
	// Never puts them nowhere. An answer of package nethttp's then names no rule
	// in its body either.
	Never
)
