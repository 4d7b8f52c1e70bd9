package client

import (
	"net/http"

	"github.com/weir-go/weir/client/internal/quota"
)

// tokenFields are the fields of the kinds of tokens, by dialect. A kind without fields has no
// limit.
var tokenFields = [...][tokenKinds]*quota.Family{
	OpenAI: {
		allTokens: family("x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens",
			"x-ratelimit-reset-tokens"),
	},
	Anthropic: {
		allTokens: family("anthropic-ratelimit-tokens-limit",
			"anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
		inputTokens: family("anthropic-ratelimit-input-tokens-limit",
			"anthropic-ratelimit-input-tokens-remaining",
			"anthropic-ratelimit-input-tokens-reset"),
		outputTokens: family("anthropic-ratelimit-output-tokens-limit",
			"anthropic-ratelimit-output-tokens-remaining",
			"anthropic-ratelimit-output-tokens-reset"),
	},
}

func family(limit, remaining, reset string) *quota.Family {
	f := quota.FamilyOf(limit, remaining, reset)
	return &f
}

// thousand is what Anthropic rounds remaining tokens to. Half of it may be missing.
const thousand = 1000

// readModel reads an answer of OpenAI or Anthropic. A denial that tells no wait is by the limit of
// which the smallest part is left, and lasts until that is whole. If nearly all of it is left, it
// is by a limit that the answer does not tell.
func readModel(dialect Dialect, h http.Header, told bool, a *answer) {
	tightest, any := a.quota, a.counted
	stored := quota.FromCache(h)
	for kind, f := range tokenFields[dialect] {
		if f == nil || stored {
			continue
		}
		q, ok := f.Read(h)
		if !ok {
			continue
		}
		if dialect == Anthropic && q.Left%thousand == 0 && q.Left < q.Limit {
			q.Left = max(q.Left-thousand/2, 0)
		}
		if a.tokens == nil {
			a.tokens = new([tokenKinds]quota.Rest)
		}
		a.tokens[kind] = q
		if !any || q.Part() < tightest.Part() {
			tightest, any = q, true
		}
	}
	nearlyWhole := tightest.Part() > 0.9 && tightest.Ample() // another limit has denied
	if a.another = a.limited && !told && any && nearlyWhole; a.another {
		return
	}
	if a.limited && !told && any && tightest.Window > 0 {
		a.wait, a.source = tightest.Window, tightest.Source
	}
}
