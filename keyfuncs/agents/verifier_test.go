package agents_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
)

func TestASignatureNamesItsAgent(t *testing.T) {
	s := newSite(t, func(c *agents.Config) { c.Directories[1].Name = "The-Other" })
	wantAgent(t, s.Verifier, signed(s.bot), "bot.example")
	wantAgent(t, s.Verifier, signed(s.other), "The-Other")

	agent, err := s.Verify(signed(s.bot))
	thumbprint := agents.Thumbprint(publicOf(s.bot))
	if err != nil || agent.Thumbprint != thumbprint || !agent.Listed || agent.Nonce == "" ||
		agent.Directory != "https://bot.example/.well-known/http-message-signatures-directory" ||
		agent.Expires.Sub(agent.Created) != time.Minute {
		t.Errorf("got %+v, %v", agent, err)
	}
}

func TestARequestWithoutASignatureIsThatOfAStranger(t *testing.T) {
	s := newSite(t)
	wantRefused(t, s.Verifier, get(), core.ErrAbsent, "")
	r := signed(s.bot) // for another purpose
	r.Header.Set("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), "web-bot-auth", "other", 1))
	wantRefused(t, s.Verifier, r, core.ErrAbsent, "")
	r = get()
	r.Header.Set("Signature-Agent", `sig1="https://bot.example"`)
	wantRefused(t, s.Verifier, r, core.ErrAbsent, "")
}

// Each form is accepted by the table in the package's comment.
func TestFormsOfOlderDraftsAreAccepted(t *testing.T) {
	s := newSite(t)
	for name, alter := range map[string]func(*signing){
		"draft -01": func(*signing) {},
		"the URL": func(g *signing) {
			const url = `"https://bot.example/.well-known/http-message-signatures-directory"`
			g.agent = "sig1=" + url
			g.base = strings.Replace(g.base, `"https://bot.example"`, url, 1)
		},
		"another spelling": func(g *signing) {
			g.agent = `sig1="HTTPS://Bot.Example:443/"`
			g.base = strings.Replace(g.base, `"https://bot.example"`, `"HTTPS://Bot.Example:443/"`, 1)
		},
		"a query": func(g *signing) {
			g.agent = `sig1="https://bot.example?v=1"`
			g.base = strings.Replace(g.base, `"https://bot.example"`, `"https://bot.example?v=1"`, 1)
		},
		"a String": func(g *signing) {
			g.agent, g.components = `"https://bot.example"`, `"@authority" "signature-agent"`
			g.base = "\"@authority\": shop.example\n\"signature-agent\": \"https://bot.example\"\n"
		},
		"another member": func(g *signing) {
			g.agent, g.components = `a="https://bot.example"`, `"@authority" "signature-agent";key="a"`
			g.base = strings.Replace(g.base, `key="sig1"`, `key="a"`, 1)
		},
		"the whole Dictionary": func(g *signing) {
			g.components = `"@authority" "signature-agent"`
			g.base = "\"@authority\": shop.example\n\"signature-agent\": sig1=\"https://bot.example\"\n"
		},
		"the whole Dictionary of two": func(g *signing) {
			g.agent, g.components = `a="https://other.example", sig1="https://bot.example"`, `"@authority" "signature-agent"`
			g.base = "\"@authority\": shop.example\n\"signature-agent\": " + g.agent + "\n"
		},
		"both members": func(g *signing) {
			g.agent = `a="https://other.example", sig1="https://bot.example"`
			g.components = `"@authority" "signature-agent";key="a" "signature-agent";key="sig1"`
			g.base = strings.Replace(g.base, "\n", "\n\"signature-agent\";key=\"a\": \"https://other.example\"\n", 1)
		},
		"a member of another signature": func(g *signing) { g.agent = `a="https://other.example", ` + g.agent },
		"@target-uri": func(g *signing) {
			g.components = strings.Replace(g.components, "@authority", "@target-uri", 1)
			g.base = strings.Replace(g.base, `"@authority": shop.example`, `"@target-uri": https://shop.example/items?page=2`, 1)
		},
		"more components": func(g *signing) {
			g.components += ` "@method" "@path" "@query-param";name="page"`
			g.base += "\"@method\": GET\n\"@path\": /items\n\"@query-param\";name=\"page\": 2\n"
		},
		"alg":                   func(g *signing) { g.params += `;alg="ed25519"` },
		"no nonce":              func(g *signing) { g.params = strings.Replace(g.params, `;nonce="n1"`, "", 1) },
		"a parameter":           func(g *signing) { g.params += `;x=token` },
		"a clock that is ahead": func(g *signing) { g.created, g.expires = 29*time.Second, time.Minute },
		"a day":                 func(g *signing) { g.expires = 24 * time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			g := usual()
			alter(&g)
			wantAgent(t, s.Verifier, g.sign(s.bot.Key), "bot.example")
		})
	}
}

// between alters when a signature is good, from now on.
func between(created, expires time.Duration) func(*signing) {
	return func(g *signing) { g.created, g.expires = created, expires }
}

func TestEachFaultOfASignatureIsSaid(t *testing.T) {
	s := newSite(t)
	for name, c := range map[string]struct {
		alter func(*signing)
		kind  error
		why   string
	}{
		"no created": {func(g *signing) { g.params = strings.Replace(g.params, ";created=%d", ";x=%d", 1) },
			agents.ErrInvalid, "needs created"},
		"no expires": {func(g *signing) { g.params = strings.Replace(g.params, ";expires=%d", ";x=%d", 1) },
			agents.ErrInvalid, "needs created"},
		"no keyid": {func(g *signing) { g.params = strings.Replace(g.params, ";keyid=", ";x=", 1) },
			agents.ErrInvalid, "needs created"},
		"another algorithm": {func(g *signing) { g.params += `;alg="hmac-sha256"` }, agents.ErrInvalid, "ed25519"},
		"expired":           {between(-time.Hour, -time.Second), agents.ErrInvalid, "expired"},
		"in the future":     {between(time.Minute, time.Hour), agents.ErrInvalid, "future"},
		"of no length":      {between(10*time.Second, 10*time.Second), agents.ErrInvalid, "a later expires"},
		"too long":          {between(0, 24*time.Hour+time.Second), agents.ErrInvalid, "too long"},
		"no authority": {func(g *signing) {
			g.components = strings.Replace(g.components, "@authority", "@path", 1)
			g.base = strings.Replace(g.base, `"@authority": shop.example`, `"@path": /items`, 1)
		}, agents.ErrInvalid, "does not cover"},
		"nothing": {func(g *signing) { g.components, g.base = "", "" }, agents.ErrInvalid, "does not cover"},
		"no Signature-Agent": {func(g *signing) {
			g.agent, g.components, g.base = "", `"@authority"`, "\"@authority\": shop.example\n"
		}, agents.ErrInvalid, "Signature-Agent is missing"},
		"an agent that is not covered": {func(g *signing) {
			g.components, g.base = `"@authority"`, "\"@authority\": shop.example\n"
		}, agents.ErrInvalid, "Signature-Agent is missing"},
		"a String that is not covered": {func(g *signing) { g.agent = `"https://bot.example"` },
			agents.ErrInvalid, "Signature-Agent is missing"},
		"a member that is not there": {func(g *signing) { g.agent = `a="https://bot.example"` },
			agents.ErrInvalid, "Signature-Agent is missing"},
		"two members of one key": {func(g *signing) { g.agent = `sig1="https://bot.example", sig1="https://bot.example"` },
			agents.ErrInvalid, "ambiguous"},
		"two members, and none of the label": {func(g *signing) {
			g.agent, g.components = `a="https://bot.example", b="https://other.example"`, `"@authority" "signature-agent"`
			g.base = "\"@authority\": shop.example\n\"signature-agent\": " + g.agent + "\n"
		}, agents.ErrInvalid, "ambiguous"},
		"a member with a parameter": {func(g *signing) {
			g.agent = `sig1="https://bot.example";type="directory"`
			g.base = strings.TrimSuffix(g.base, "\n") + ";type=\"directory\"\n"
		}, agents.ErrInvalid, "Signature-Agent"},
		"a Token": {func(g *signing) {
			g.agent, g.base = `sig1=bot.example`, strings.Replace(g.base, `"https://bot.example"`, "bot.example", 1)
		}, agents.ErrInvalid, "Signature-Agent"},
		"no URL": {func(g *signing) {
			g.agent, g.base = `sig1="bot.example"`, strings.Replace(g.base, "https://", "", 1)
		}, agents.ErrInvalid, "Signature-Agent"},
		"http": {func(g *signing) {
			g.agent, g.base = `sig1="http://bot.example"`, strings.Replace(g.base, "https://", "http://", 1)
		}, agents.ErrInvalid, "Signature-Agent"},
		"another directory": {func(g *signing) {
			g.agent, g.base = `sig1="https://b0t.example"`, strings.Replace(g.base, "bot", "b0t", 1)
		}, agents.ErrUnverified, "not listed"},
		"the directory of another": {func(g *signing) {
			g.agent, g.base = `sig1="https://other.example"`, strings.Replace(g.base, "bot", "other", 1)
		}, agents.ErrUnverified, "does not have this key"},
		"a field that is not there": {func(g *signing) {
			g.components += ` "x"`
			g.base += "\"x\": \n"
		}, agents.ErrInvalid, "does not have"},
		"another text": {func(g *signing) { g.base = strings.Replace(g.base, "shop", "shed", 1) },
			agents.ErrInvalid, "not by this key"},
	} {
		t.Run(name, func(t *testing.T) {
			g := usual()
			c.alter(&g)
			wantRefused(t, s.Verifier, g.sign(s.bot.Key), c.kind, c.why)
		})
	}
}

// Another site that an agent visits has its signature, and could send it here under its own name.
func TestASignatureForAnotherSiteIsInvalid(t *testing.T) {
	const elsewhere = "evil.example"
	s := newSite(t, func(c *agents.Config) {
		c.Authorities = []string{"shop.example", "*.shop.example", "shop.test:8443"}
	})
	at := func(host string) *http.Request {
		r := get()
		r.Host = host
		s.bot.Sign(r)
		return r
	}
	r := at(elsewhere)
	wantRefused(t, s.Verifier, r, agents.ErrInvalid, "another site")
	r.Host = "shop.example"
	wantRefused(t, s.Verifier, r, agents.ErrInvalid, "not by this key")
	for host, ours := range map[string]bool{
		"shop.example": true, "Shop.Example": true, "shop.example:443": true, "www.shop.example": true,
		"a.b.shop.example": true, "shop.test:8443": true, "shop.example:8443": false, "shop.test": false,
		"notshop.example": false, "shop.example.evil.example": false, "shop.example:80": false, "example": false,
	} {
		if got := s.Signed(at(host)); got != ours {
			t.Errorf("%s: got %v, want %v", host, got, ours)
		}
	}
	s = newSite(t, func(c *agents.Config) { c.Authorities = []string{"*"} })
	wantAgent(t, s.Verifier, at2(s.bot, elsewhere), "bot.example")
	s = newSite(t, func(c *agents.Config) { c.Scheme = "http" })
	r = get()
	r.Host = "shop.example:80"
	r.URL.Scheme = "http"
	s.bot.Sign(r)
	wantAgent(t, s.Verifier, r, "bot.example")
}

func at2(s *agentstest.Signer, host string) *http.Request {
	r := get()
	r.Host = host
	s.Sign(r)
	return r
}

func TestASiteMayWantMoreComponents(t *testing.T) {
	s := newSite(t, func(c *agents.Config) { c.Components = []string{"@method", "@path"} })
	wantRefused(t, s.Verifier, signed(s.bot), agents.ErrInvalid, "does not cover")
	s.bot.Components = []string{"@path", "@method", "@query"}
	r := signed(s.bot)
	wantAgent(t, s.Verifier, r, "bot.example")
	r.Method = "DELETE"
	wantRefused(t, s.Verifier, r, agents.ErrInvalid, "not by this key")
}

// Components that name Signature-Agent ask for nothing more: each signature covers it.
func TestComponentsMayNameSignatureAgent(t *testing.T) {
	s := newSite(t, func(c *agents.Config) { c.Components = []string{"signature-agent", "@authority"} })
	wantAgent(t, s.Verifier, signed(s.bot), "bot.example")
}

func TestASiteMayWantANonceAndAShortLife(t *testing.T) {
	s := newSite(t, func(c *agents.Config) { c.RequireNonce, c.MaxLifetime, c.MaxSkew = true, 5*time.Minute, -1 })
	wantAgent(t, s.Verifier, signed(s.bot), "bot.example")
	g := usual()
	g.params = strings.Replace(g.params, `;nonce="n1"`, "", 1)
	wantRefused(t, s.Verifier, g.sign(s.bot.Key), agents.ErrInvalid, "no nonce")
	g = usual()
	g.expires = 6 * time.Minute
	wantRefused(t, s.Verifier, g.sign(s.bot.Key), agents.ErrInvalid, "too long")
	g = usual()
	g.created = 5 * time.Second
	wantRefused(t, s.Verifier, g.sign(s.bot.Key), agents.ErrInvalid, "future")
}

// A remote browser signs what an agent has signed.
func TestOfSeveralSignaturesTheFirstGoodOneCounts(t *testing.T) {
	s := newSite(t)
	good, forged := signed(s.bot), usual().sign(s.other.Key)
	join := func(first, second *http.Request, label string) *http.Request {
		r := get()
		for _, name := range []string{"Signature-Input", "Signature", "Signature-Agent"} {
			r.Header[name] = []string{
				strings.Replace(first.Header.Get(name), "sig1=", label+"=", 1), second.Header.Get(name),
			}
		}
		return r
	}
	wantAgent(t, s.Verifier, join(forged, good, "sig0"), "bot.example")
	wantRefused(t, s.Verifier, join(forged, get(), "sig0"), agents.ErrInvalid, "malformed")
}

func TestKeysAreGoodWhileTheirDirectorySaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins in 2000
		bot := agentstest.New("https://bot.example")
		keys := strings.Replace(string(bot.KeySet()), `"use"`, fmt.Sprintf(`"nbf":%d,"exp":%d,"use"`,
			time.Now().Add(time.Hour).Unix(), time.Now().Add(2*time.Hour).Unix()), 1)
		s := newSite(t, func(c *agents.Config) { c.Directories[0].Keys = []byte(keys) })
		wantRefused(t, s.Verifier, signed(bot), agents.ErrUnverified, "does not have this key now")
		time.Sleep(time.Hour)
		wantAgent(t, s.Verifier, signed(bot), "bot.example")
		time.Sleep(time.Hour)
		wantRefused(t, s.Verifier, signed(bot), agents.ErrUnverified, "does not have this key now")
	})
}

// What was seen to be good stays good only as long as its signature, its key and its site do.
func TestARememberedSignatureExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		r := signed(s.bot)
		wantAgent(t, s.Verifier, r, "bot.example")
		wantAgent(t, s.Verifier, r, "bot.example")
		r.Host = "evil.example"
		wantRefused(t, s.Verifier, r, agents.ErrInvalid, "another site")
		r.Host = "shop.example"
		time.Sleep(time.Minute)
		wantRefused(t, s.Verifier, r, agents.ErrInvalid, "expired")
	})
}

func TestADirectoryIsFetchedWhenItIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bot := agentstest.New("https://bot.example")
		served := &counting{RoundTripper: agentstest.Transport(bot)}
		s := newSite(t, func(c *agents.Config) {
			c.Directories, c.Transport = []agents.Directory{{URL: bot.Directory}}, served
		})
		wantRefused(t, s.Verifier, get(), core.ErrAbsent, "")
		if served.asked.Load() != 0 {
			t.Error("fetched without a signature")
		}
		for range 3 {
			wantAgent(t, s.Verifier, signed(bot), "bot.example")
		}
		if got := served.asked.Load(); got != 1 {
			t.Errorf("%d fetches, want 1", got)
		}
	})
}

func TestKeysOutliveAChangeOfConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bot, other := agentstest.New("https://bot.example"), agentstest.New("https://other.example/keys")
		served := &counting{RoundTripper: agentstest.Transport(bot, other)}
		config := agents.Config{
			Authorities: []string{"shop.example"}, Directories: []agents.Directory{{URL: bot.Directory}}, Transport: served,
		}
		for i := range 3 {
			config.Previous = agents.MustNew(config)
			wantAgent(t, config.Previous, signed(bot), "bot.example")
			if got := served.asked.Load(); got != 1 {
				t.Errorf("%d fetches after %d changes, want 1", got, i)
			}
		}
		config.Directories = append(config.Directories, agents.Directory{URL: other.Directory})
		wantAgent(t, agents.MustNew(config), signed(other), "other.example")
		config.Directories = config.Directories[1:]
		wantRefused(t, agents.MustNew(config), signed(bot), agents.ErrUnverified, "not listed")
	})
}

// counting counts the fetches of a transport.
type counting struct {
	http.RoundTripper
	asked atomic.Int64
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.asked.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

func TestADirectoryThatIsNotThereIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bot := agentstest.New("https://bot.example")
		var seen error
		s := newSite(t, func(c *agents.Config) {
			c.Directories, c.Transport = []agents.Directory{{URL: bot.Directory}}, agentstest.Transport()
			c.OnFetch = func(_ string, _ int, err error) { seen = err }
		})
		wantRefused(t, s.Verifier, signed(bot), agents.ErrUnverified, "could not be fetched")
		synctest.Wait()
		if seen == nil || !strings.Contains(seen.Error(), "404") {
			t.Errorf("got %v", seen)
		}
	})
}

func TestUnlistedDirectoriesAreFetchedOnlyIfTheOptionSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stranger := agentstest.New("https://a.stranger.co.uk")
		second := agentstest.New("https://b.stranger.co.uk/jwks")
		third := agentstest.New("https://c.stranger.co.uk")
		served := &counting{RoundTripper: agentstest.Transport(stranger, second, third)}
		s := newSite(t, func(c *agents.Config) { c.Transport = served })
		wantRefused(t, s.Verifier, signed(stranger), agents.ErrUnverified, "not listed")
		if served.asked.Load() != 0 {
			t.Error("fetched because a stranger says so")
		}

		s = newSite(t, func(c *agents.Config) { c.Transport, c.Unlisted = served, 2 })
		wantAgent(t, s.Verifier, signed(stranger), "unlisted:stranger.co.uk")
		wantAgent(t, s.Verifier, signed(second), "unlisted:stranger.co.uk") // one budget
		wantRefused(t, s.Verifier, signed(third), agents.ErrUnverified, "no room")
		agent, err := s.Verify(signed(stranger))
		if err != nil || agent.Listed {
			t.Errorf("got %+v, %v", agent, err)
		}
		time.Sleep(2 * time.Hour) // unused for so long, they make room
		wantAgent(t, s.Verifier, signed(third), "unlisted:stranger.co.uk")
		for _, url := range []string{
			"https://127.0.0.1", "https://localhost", "https://stranger.example:8443", "https://co.uk",
		} {
			wantRefused(t, s.Verifier, signed(agentstest.New(url)), agents.ErrUnverified, "not listed")
		}
	})
}

func TestAnUnlistedDirectoryThatFailsMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := agentstest.New("https://good.example")
		served := &counting{RoundTripper: agentstest.Transport(good)}
		s := newSite(t, func(c *agents.Config) { c.Transport, c.Unlisted = served, 1 })
		bad := signed(agentstest.New("https://bad.example"))
		wantRefused(t, s.Verifier, bad, agents.ErrUnverified, "could not be fetched")
		wantRefused(t, s.Verifier, signed(good), agents.ErrUnverified, "no room")
		time.Sleep(6 * time.Second)
		wantAgent(t, s.Verifier, signed(good), "unlisted:good.example")
	})
}

// attack is a way to alter a good request that must not be accepted.
type attack func(rng *rand.Rand, s *site, r *http.Request)

// attacks change the parts of a signature that a verifier might forget.
var attacks = map[string]attack{
	"forged": func(_ *rand.Rand, s *site, r *http.Request) {
		forger := agentstest.New(s.bot.Directory)
		keyid := agents.Thumbprint(publicOf(forger))
		forger.Sign(r)
		replaceIn(r, "Signature-Input", keyid, agents.Thumbprint(publicOf(s.bot)))
	},
	"a bit": func(rng *rand.Rand, _ *site, r *http.Request) {
		value := []byte(r.Header.Get("Signature"))
		i := len("sig1=:") + rng.IntN(85) // the last character of 86 has bits that no byte needs
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
		value[i] = alphabet[(strings.IndexByte(alphabet, value[i])+1+rng.IntN(63))%64]
		r.Header.Set("Signature", string(value))
	},
	"expired": func(rng *rand.Rand, s *site, r *http.Request) {
		g := usual()
		g.created = -time.Duration(61+rng.IntN(80_000)) * time.Second
		g.expires = g.created + time.Duration(1+rng.IntN(60))*time.Second
		r.Header = g.sign(s.bot.Key).Header
	},
	"not yet": func(rng *rand.Rand, s *site, r *http.Request) {
		g := usual()
		g.created = time.Duration(32+rng.IntN(80_000)) * time.Second
		g.expires = g.created + time.Minute
		r.Header = g.sign(s.bot.Key).Header
	},
	"longer": func(rng *rand.Rand, _ *site, r *http.Request) {
		replaceIn(r, "Signature-Input", ";expires=", fmt.Sprintf(";expires=%d;x=", time.Now().Unix()+100+rng.Int64N(9000)))
	},
	"of another instant": func(rng *rand.Rand, _ *site, r *http.Request) {
		replaceIn(r, "Signature-Input", ";created=", fmt.Sprintf(";created=%d;x=", time.Now().Unix()-1-rng.Int64N(9000)))
	},
	"for another site": func(rng *rand.Rand, s *site, r *http.Request) {
		r.Host = fmt.Sprintf("shop%d.example", rng.IntN(1e6))
		s.bot.Sign(r)
		if rng.IntN(2) == 0 {
			r.Host = "shop.example"
		}
	},
	"without @authority": func(rng *rand.Rand, s *site, r *http.Request) {
		g := usual()
		other := []string{`"@path"`, `"@scheme"`, `"@authority";req`, `"host"`, `"@authority";key="a"`}[rng.IntN(5)]
		g.components = strings.Replace(g.components, `"@authority"`, other, 1)
		g.base = strings.Replace(g.base, `"@authority"`, other, 1)
		r.Header = g.sign(s.bot.Key).Header
	},
	"without its agent": func(rng *rand.Rand, s *site, r *http.Request) {
		g := usual()
		g.components, g.base = `"@authority"`, "\"@authority\": shop.example\n"
		g.agent = []string{"", `"https://bot.example"`, g.agent}[rng.IntN(3)]
		r.Header = g.sign(s.bot.Key).Header
	},
	"under another name": func(rng *rand.Rand, s *site, r *http.Request) {
		if rng.IntN(2) == 0 {
			r.Header.Set("Signature-Agent", `sig1="`+s.other.Directory+`"`)
		} else {
			s.bot.Directory = s.other.Directory
			s.bot.Sign(r)
			s.bot.Directory = "https://bot.example"
		}
	},
	"another nonce": func(rng *rand.Rand, _ *site, r *http.Request) {
		replaceIn(r, "Signature-Input", `;nonce="`, fmt.Sprintf(`;nonce="%d`, rng.Uint64()))
	},
	"another method": func(_ *rand.Rand, _ *site, r *http.Request) { r.Method = "POST" },
	"another path": func(rng *rand.Rand, _ *site, r *http.Request) {
		r.RequestURI = fmt.Sprintf("/items%d?page=2", rng.IntN(1e6))
	},
	"another order": func(_ *rand.Rand, _ *site, r *http.Request) {
		replaceIn(r, "Signature-Input", `"@method" "@path"`, `"@path" "@method"`)
	},
	"one component less": func(_ *rand.Rand, _ *site, r *http.Request) {
		replaceIn(r, "Signature-Input", ` "@method"`, "")
	},
	"one component twice": func(_ *rand.Rand, _ *site, r *http.Request) {
		replaceIn(r, "Signature-Input", ` "@method"`, ` "@method" "@method"`)
	},
	"another label": func(_ *rand.Rand, _ *site, r *http.Request) { replaceIn(r, "Signature", "sig1=", "sig2=") },
	"no tag":        func(_ *rand.Rand, _ *site, r *http.Request) { replaceIn(r, "Signature-Input", ";tag=", ";x=") },
	"an unknown key": func(_ *rand.Rand, s *site, r *http.Request) {
		agentstest.New(s.bot.Directory).Sign(r)
	},
	"an empty signature": func(_ *rand.Rand, _ *site, r *http.Request) {
		r.Header.Set("Signature", "sig1=:"+strings.Repeat("A", 86)+"==:")
	},
}

func replaceIn(r *http.Request, field, old, with string) {
	r.Header.Set(field, strings.Replace(r.Header.Get(field), old, with, 1))
}

func TestNoAlteredSignatureIsAccepted(t *testing.T) {
	rng := testrun.Random(t)
	s := newSite(t)
	s.bot.Components = []string{"@method", "@path"}
	var names []string
	for name := range attacks {
		names = append(names, name)
	}
	slices.Sort(names)
	s.bot.Lifetime = time.Hour
	var good []*http.Request
	for range 500 {
		r := signed(s.bot)
		if !s.Signed(r) {
			t.Fatal("a good signature is refused")
		}
		good = append(good, r)
	}
	refused := make(map[string]int)
	for i := range testrun.Sized(5000, 100_000) {
		name := names[i%len(names)]
		r := good[rng.IntN(len(good))].Clone(t.Context())
		attacks[name](rng, s, r)
		if agent, err := s.Verify(r); err == nil {
			t.Fatalf("%s: accepted as %q: %q", name, agent.Name, r.Header)
		} else if !errors.Is(err, core.ErrAbsent) || name == "no tag" {
			refused[name]++
		}
	}
	for _, name := range names {
		if refused[name] == 0 {
			t.Errorf("%s: never refused for its signature", name)
		}
	}
}

// A stranger can send any number of key ids and directories.
func TestAFloodOfUnknownKeysLeavesNothing(t *testing.T) {
	bot := agentstest.New("https://bot.example")
	served := &counting{RoundTripper: agentstest.Transport(bot)}
	s := newSite(t, func(c *agents.Config) {
		c.Directories, c.Transport = []agents.Directory{{URL: bot.Directory}}, served
	})
	wantAgent(t, s.Verifier, signed(bot), "bot.example")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := signed(bot)
	input, agent := r.Header.Get("Signature-Input"), r.Header.Get("Signature-Agent")
	thumbprint := agents.Thumbprint(publicOf(bot))
	for i := range testrun.Sized(10_000, 100_000) {
		if i%2 == 0 {
			r.Header.Set("Signature-Input", strings.Replace(input, thumbprint, fmt.Sprintf("%043d", i), 1))
		} else {
			r.Header.Set("Signature-Agent", strings.Replace(agent, "bot", fmt.Sprint("bot", i), 1))
		}
		if s.Signed(r) {
			t.Fatal("accepted")
		}
		r.Header.Set("Signature-Input", input)
		r.Header.Set("Signature-Agent", agent)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 100_000 {
		t.Errorf("%d bytes stay", grown)
	}
	if got := served.asked.Load(); got != 1 {
		t.Errorf("%d fetches, want the first alone", got)
	}
	runtime.KeepAlive(s)
}
