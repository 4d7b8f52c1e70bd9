package agents_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// An agent that these examples know, and one that they do not.
var (
	bot      = agentstest.New("https://bot.example")
	stranger = agentstest.New("https://stranger.example")
)

var verifier = agents.MustNew(agents.Config{
	Authorities: []string{"shop.example"},
	Directories: []agents.Directory{{URL: "https://bot.example", Keys: bot.KeySet()}},
})

// from returns a request that s has signed, if it is not nil.
func from(s *agentstest.Signer) *http.Request {
	r := httptest.NewRequest("GET", "https://shop.example/items", nil)
	r.RemoteAddr = "203.0.113.7:50000"
	if s != nil {
		s.Sign(r)
	}
	return r
}

func Example() {
	plan := limits.TokenBucket(limits.PerMinute(600), 60)
	small := limits.FixedWindow(limits.PerMinute(2))
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{
			{Name: "agents", Limit: plan, Key: core.When(verifier.Signed, verifier.Key)},
			{Name: "replay", Limit: verifier.Once(), Key: verifier.Nonce, OnFailure: core.FailClosed, Hidden: true},
			{Name: "strangers", Limit: small, Key: core.Unless(verifier.Signed,
				keyfuncs.MustAddressPrefix(keyfuncs.Peer, 48))},
		},
		Denied: verifier.Challenge(nil),
	})
	handler := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for _, s := range []*agentstest.Signer{nil, nil, nil, bot} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, from(s))
		fmt.Println(w.Code, w.Header()["Accept-Signature"])
	}
	// Output:
	// 200 []
	// 200 []
	// 429 [sig1=("@authority" "signature-agent";key="sig1");created;expires;alg="ed25519";tag="web-bot-auth"]
	// 200 []
}

func ExampleConfig() {
	_, err := agents.New(agents.Config{
		Directories: []agents.Directory{{URL: "bot.example"}},
		Authorities: []string{"https://shop.example"},
		MaxLifetime: -time.Minute,
	})
	fmt.Println(strings.Count(err.Error(), "\n")+1, "mistakes")
	// Output: 3 mistakes
}

func ExampleDirectory() {
	v := agents.MustNew(agents.Config{
		Authorities: []string{"shop.example"},
		Directories: []agents.Directory{
			{URL: "https://bot.example", Name: "bot", Keys: bot.KeySet()},
			{URL: "https://stranger.example/keys.json", Name: "bot"}, // fetched; the two count together
		},
	})
	fmt.Println(v.Key(from(bot)))
	// Output: bot <nil>
}

func ExampleNew() {
	_, err := agents.New(agents.Config{Authorities: []string{"shop.example"}})
	fmt.Println(err)
	// Output:
	// agents: Directories is required: list the directories of agents that you know, or set Unlisted
}

func ExampleMustNew() {
	v := agents.MustNew(agents.Config{
		Authorities: []string{"shop.example", "*.shop.example"},
		Directories: []agents.Directory{{URL: "https://bot.example", Keys: bot.KeySet()}},
	})
	fmt.Println(v.Signed(from(bot)))
	// Output: true
}

func ExampleVerifier() {
	key := keyfuncs.FirstNamed(
		keyfuncs.Named("agent", verifier.Key),
		keyfuncs.Named("address", keyfuncs.Address(keyfuncs.Peer)),
	)
	fmt.Println(key(from(bot)))
	fmt.Println(key(from(stranger)))
	fmt.Println(key(from(nil)))
	// Output:
	// agent:bot.example <nil>
	// address:203.0.113.7 <nil>
	// address:203.0.113.7 <nil>
}

func ExampleVerifier_Verify() {
	agent, err := verifier.Verify(from(bot))
	fmt.Println(agent.Name, err)
	_, err = verifier.Verify(from(stranger))
	fmt.Println(err)
	// Output:
	// bot.example <nil>
	// agents: the signature cannot be verified: its directory is not listed
}

func ExampleVerifier_Key() {
	fmt.Println(verifier.Key(from(bot)))
	fmt.Println(verifier.Key(from(nil)))
	// Output:
	// bot.example <nil>
	//  core: the request has no such key
}

func ExampleVerifier_Signed() {
	fmt.Println(verifier.Signed(from(bot)), verifier.Signed(from(stranger)))
	// Output: true false
}

func ExampleVerifier_Nonce() {
	r := from(bot)
	first, _ := verifier.Nonce(r)
	copied, _ := verifier.Nonce(r)
	next, _ := verifier.Nonce(from(bot))
	fmt.Println(len(first), first == copied, first == next)
	// Output: 32 true false
}

func ExampleVerifier_Once() {
	limiter := core.MustNew(core.Config[*http.Request]{Rules: []core.Rule[*http.Request]{
		{Name: "replay", Limit: verifier.Once(), Key: verifier.Nonce},
	}})
	r := from(bot)
	for range 2 {
		fmt.Println(limiter.Decide(r.Context(), r).Verdict())
	}
	// Output:
	// allowed
	// denied
}

func ExampleVerifier_Invalid() {
	r := from(bot)
	r.Host = "other.example" // as a site that bot has visited would send its signature here
	fmt.Println(verifier.Invalid(r), verifier.Invalid(from(stranger)), verifier.Invalid(from(nil)))
	// Output: true false false
}

func ExampleVerifier_Challenge() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name: "strangers", Limit: limits.FixedWindow(limits.PerDay(1)),
			Key: core.Unless(verifier.Signed, keyfuncs.Address(keyfuncs.Peer)),
		}},
		Denied: verifier.Challenge(func(w http.ResponseWriter, _ *http.Request, o core.Outcome) {
			http.Error(w, "Sign your requests.", o.Status())
		}),
	})
	handler := limiter.Handler(http.NotFoundHandler())
	handler.ServeHTTP(httptest.NewRecorder(), from(nil))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, from(nil))
	fmt.Println(w.Code, strings.TrimSpace(w.Body.String()), len(w.Header()["Accept-Signature"]))
	// Output: 429 Sign your requests. 1
}

func ExampleAgent() {
	plans := map[string]limits.Limit{"bot.example": limits.SlidingWindow(limits.PerMinute(6000))}
	limitFor := func(r *http.Request, _ string) (limits.Limit, error) {
		agent, err := verifier.Verify(r)
		if plan, ok := plans[agent.Name]; ok && err == nil {
			return plan, nil
		}
		return limits.SlidingWindow(limits.PerMinute(60)), nil
	}
	fmt.Println(limitFor(from(bot), ""))
	fmt.Println(limitFor(from(stranger), ""))
	// Output:
	// sliding-window 6000/1m <nil>
	// sliding-window 60/1m <nil>
}

func ExampleErrInvalid() {
	r := from(bot)
	r.Header.Set("Signature", "sig1=:AAAA:")
	_, err := verifier.Verify(r)
	fmt.Println(errors.Is(err, agents.ErrInvalid))
	// Output: true
}

func ExampleErrUnverified() {
	_, err := verifier.Verify(from(stranger))
	fmt.Println(errors.Is(err, agents.ErrUnverified))
	// Output: true
}

// exampleKey is the public half of a key whose private half is no secret.
var exampleKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)).Public().(ed25519.PublicKey)

func ExampleThumbprint() {
	fmt.Println(agents.Thumbprint(exampleKey))
	// Output:
	// --6IM5l0OosLj9yWskISYhUA3n_3CURQkmrYMSha_ck
}

func ExampleKeySet() {
	http.HandleFunc("GET /.well-known/http-message-signatures-directory",
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/http-message-signatures-directory+json")
			w.Write(agents.KeySet(exampleKey))
		})
	fmt.Println(string(agents.KeySet(exampleKey))[:48])
	// Output:
	// {"keys":[{"kty":"OKP","crv":"Ed25519","kid":"--6
}
