package agents_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
)

func TestAStrangerIsAskedToSignOnceItsLimitIsReached(t *testing.T) {
	s := newSite(t)
	h := limited(t, s.Verifier, memory.MustNew(memory.Options{}))
	for range 2 {
		if w := serve(h, get()); w.Code != 200 || w.Header().Get("Accept-Signature") != "" {
			t.Errorf("got %d, %v", w.Code, w.Header())
		}
	}
	w := serve(h, get())
	const want = `sig1=("@authority" "signature-agent";key="sig1");created;expires;alg="ed25519";tag="web-bot-auth"`
	if got := w.Header().Get("Accept-Signature"); w.Code != 429 || got != want {
		t.Errorf("got %d, %s", w.Code, got)
	}
	if w.Header().Get("Retry-After") == "" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("got %v", w.Header())
	}
	forged := usual().sign(s.other.Key)
	if w := serve(h, forged); w.Code != 429 || w.Header().Get("Accept-Signature") == "" {
		t.Errorf("a false signature got %d, %v", w.Code, w.Header())
	}
	if w := serve(h, signed(s.bot)); w.Code != 200 {
		t.Errorf("signed, it got %d", w.Code)
	}
}

func TestTheFieldAsksForWhatTheSiteWants(t *testing.T) {
	s := newSite(t, func(c *agents.Config) {
		c.RequireNonce, c.Components = true, []string{"@path", "@method", "@authority", "@path"}
	})
	h := limited(t, s.Verifier, memory.MustNew(memory.Options{}))
	nonces := make(map[string]bool)
	for range 5 {
		w := serve(h, get())
		if w.Code != 429 {
			continue
		}
		asked, err := httpsfv.UnmarshalDictionary(w.Header()["Accept-Signature"])
		if err != nil {
			t.Fatal(err)
		}
		member, _ := asked.Get("sig1")
		list := member.(httpsfv.InnerList)
		if len(list.Items) != 4 || list.Items[2].Value != "@method" || list.Items[3].Value != "@path" {
			t.Errorf("got %v", list.Items)
		}
		nonce, _ := list.Params.Get("nonce")
		if b, err := base64.StdEncoding.DecodeString(nonce.(string)); err != nil || len(b) != 64 {
			t.Errorf("got the nonce %q", nonce)
		}
		nonces[nonce.(string)] = true
	}
	if len(nonces) != 3 {
		t.Errorf("%d nonces, want 3", len(nonces))
	}
}

func TestADenialSaysWhatToDo(t *testing.T) {
	s := newSite(t)
	h := limited(t, s.Verifier, memory.MustNew(memory.Options{}))
	serve(h, get())
	serve(h, get())
	w := serve(h, get())
	var document struct {
		Type, Title, Detail string
		Status              int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if document.Status != 429 || !strings.HasPrefix(document.Detail, "Too many requests: retry in ") ||
		!strings.HasSuffix(document.Detail, " that sign their requests (Web Bot Auth) have limits of their own.") ||
		w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %+v, %v", document, w.Header())
	}
	r := get()
	r.Header.Set("Accept", "text/plain")
	if w := serve(h, r); !strings.HasPrefix(w.Body.String(), "Too many requests: retry in ") ||
		!strings.HasSuffix(w.Body.String(), "limits of their own.\n") {
		t.Errorf("got %q", w.Body)
	}
	r = get()
	r.Method, r.ProtoMajor = "POST", 2
	r.Header.Set("Content-Type", "application/grpc")
	if w := serve(h, r); w.Code != 200 || w.Header().Get("Grpc-Status") != "8" {
		t.Errorf("got %d, %v", w.Code, w.Header())
	}
}

func TestADeniedOfTheProgramAnswers(t *testing.T) {
	s := newSite(t)
	called := false
	denied := s.Challenge(func(w http.ResponseWriter, r *http.Request, o core.Outcome) {
		called = true
		nethttp.PlainText(w, r, o)
	})
	limiter := nethttp.MustNew(nethttp.Config{
		Denied: denied,
		Rules:  []nethttp.Rule{{Name: "all", Limit: s.Once(), Key: keyfuncs.Constant[*http.Request]("all")}},
	})
	h := limiter.Handler(http.NotFoundHandler())
	serve(h, get())
	if w := serve(h, get()); !called || w.Code != 429 || w.Header().Get("Accept-Signature") == "" {
		t.Errorf("got %d, %v", w.Code, w.Header())
	}
}

// A 503 is no matter of signatures.
func TestARequestThatCannotBeDecidedIsNotAsked(t *testing.T) {
	s := newSite(t)
	limiter := nethttp.MustNew(nethttp.Config{
		Denied: s.Challenge(nil),
		Rules: []nethttp.Rule{{Name: "broken", Limit: s.Once(),
			Key: func(*http.Request) (string, error) { return "", http.ErrNoCookie }}},
	})
	w := serve(limiter.Handler(http.NotFoundHandler()), get())
	if w.Code != 503 || w.Header().Get("Accept-Signature") != "" || !json.Valid(w.Body.Bytes()) {
		t.Errorf("got %d, %v, %s", w.Code, w.Header(), w.Body)
	}
}
