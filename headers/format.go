package headers

import "fmt"

// Format is a set of header fields. The reset of Draft6, Draft7, GitHub, DeltaSeconds, Discord and
// EpochSeconds is when the limit is whole again. If nothing is left, it is when a unit is left,
// because clients send nothing until then; a queue says when it is empty.
type Format uint8

const (
	// IETF is RateLimit and RateLimit-Policy as in draft-ietf-httpapi-ratelimit-headers-11. IETF
	// will follow later drafts. The fields of draft -11 will then get a constant of their own, as
	// Draft7 did.
	IETF Format = iota + 1

	// Draft7 is RateLimit and RateLimit-Policy as in draft -07, the only draft in
	// which they are a Dictionary and a List of Integers.
	Draft7

	// Draft6 is RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset (seconds
	// from now) and RateLimit-Policy, as in drafts -04 to -06.
	Draft6

	// GitHub is X-RateLimit-Limit, -Remaining, -Used, -Reset (seconds since the
	// Unix epoch) and -Resource (the rule's name), as GitHub sends them.
	GitHub

	// DeltaSeconds is X-RateLimit-Limit, -Remaining and -Reset (seconds from now).
	DeltaSeconds

	// Discord is X-RateLimit-Limit, -Remaining, -Reset (seconds since the Unix epoch), -Reset-After
	// (seconds from now) and -Bucket (the rule's name), as Discord sends them: the seconds have
	// three decimals. A denial also has -Scope (see [DiscordScope]), -Global if the scope is global,
	// and Via: discord.py waits only with that field, and only if the Denied of the program answers
	// with the media type application/json.
	Discord

	// EpochSeconds is X-RateLimit-Limit, -Remaining and -Reset (seconds since the
	// Unix epoch), as httprate, ulule/limiter and many others send them: the fields
	// of GitHub without -Used and -Resource.
	EpochSeconds

	// OpenAI is x-ratelimit-limit-requests, -remaining- and -reset-, and the same of -tokens, as
	// https://platform.openai.com/docs/guides/rate-limits documents them. The reset is a duration,
	// such as 6m0s or 20ms, until the limit is whole again. The Unit of a rule says which fields it
	// has: core.Requests or core.Tokens. A rule with another Unit, such as core.Money, has none. Of
	// several rules with one Unit the fields show the one that binds. Denials also have
	// Retry-After-Ms, the wait in milliseconds, or X-Should-Retry: false if they have no Retry-After.
	// The SDKs of OpenAI and Anthropic obey both.
	OpenAI

	// Anthropic is anthropic-ratelimit-requests-limit, -remaining and -reset, and the same of
	// tokens, input-tokens and output-tokens, as https://platform.claude.com/docs/en/api/rate-limits
	// documents them. The reset is an instant of RFC 3339. The Unit of a rule says which fields it
	// has, as for OpenAI: also core.InputTokens and core.OutputTokens. Denials have the same further
	// field as those of OpenAI.
	Anthropic
)

var formatNames = [...]string{
	IETF:         "IETF",
	Draft7:       "Draft7",
	Draft6:       "Draft6",
	GitHub:       "GitHub",
	DeltaSeconds: "DeltaSeconds",
	Discord:      "Discord",
	EpochSeconds: "EpochSeconds",
	OpenAI:       "OpenAI",
	Anthropic:    "Anthropic",
}

// String returns the name of the constant.
func (f Format) String() string {
	if f.known() {
		return formatNames[f]
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

func (f Format) known() bool { return f != 0 && int(f) < len(formatNames) }

// conflicts are the pairs of formats that one answer cannot carry. IETF and Draft6 do not conflict:
// they share only RateLimit-Policy, which is then the one of IETF, and the other three fields of
// Draft6 are written without it.
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

// Show selects which answers get the fields of the formats, and which rules the fields name.
// [Options].Custom is called for the same answers. An answer with status 503 has no fields,
// whatever Show is. Show does not change Retry-After, which is on every answer to a request that is
// not allowed, nor fields that an outer limiter has written.
type Show uint8

const (
	// Always shows all rules on every answer, whether the request is allowed or
	// denied.
	Always Show = iota
	// OnDenial shows only the rules that denied, and only on denials. It suits a login route, which
	// need not publish the number of tries left.
	OnDenial
	// Omit omits the fields. The bodies of package nethttp then name no rule either.
	Omit
)

// Body selects which clients can read the body of a denial: a problem document (RFC 9457) with
// members of other APIs. The clients of these APIs know no problem documents. Without such members
// some take a denial for a success, and others lose its text or its wait.
//
// With either, retry_after is there if Retry-After is a number, which it then is.
type Body uint8

const (
	// SDKs adds message and error with type, code and message: the SDKs of Stripe, OpenAI,
	// Anthropic, Twilio and Discord and the many APIs that follow these read them. With status 429
	// type is rate_limit_error and code rate_limit_exceeded, with 503 overloaded_error and
	// service_unavailable.
	SDKs Body = iota
	// Bots also adds ok (false), code, error_code, description and parameters with retry_after, for
	// libraries that speak with Telegram and for the SDK of Notion. It suits a server in front of,
	// or in place of, such an API. The name ok is shorter than RFC 9457 wishes (section 3.2). The
	// media type is application/json: discord.py and hcloud for Go read no other.
	Bots
)

// formats is a set of formats: 1<<Format for each.
type formats uint

// formatsOf returns the set of options.Formats, or its default.
func formatsOf(options Options) formats {
	if options.Formats == nil {
		return 1 << IETF
	}
	var set formats
	for _, f := range options.Formats {
		set |= 1 << f
	}
	return set
}

// xFormats are the formats of the X-RateLimit fields.
const xFormats = 1<<GitHub | 1<<DeltaSeconds | 1<<Discord | 1<<EpochSeconds

// modelFormats are the formats of language models.
const modelFormats = 1<<OpenAI | 1<<Anthropic

func (s formats) has(f Format) bool { return s&(1<<f) != 0 }
