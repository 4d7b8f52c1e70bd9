package directory

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// keyOf returns a key that is always the same.
func keyOf(n byte) ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)).Public().(ed25519.PublicKey)
}

// jwkOf returns a key as a JSON Web Key with more members.
func jwkOf(n byte, more string) string {
	return fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","x":"%s"%s}`, encode(keyOf(n)), more)
}

func setOf(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

// RFC 8037, appendix A.3.
func TestTheThumbprintIsThatOfTheRFC(t *testing.T) {
	key := decode(t, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
	if got := Thumbprint(key); got != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("got %s", got)
	}
	if got := Thumbprint(decode(t, "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs")); got != exampleKey {
		t.Errorf("got %s, want that of the example", got)
	}
}

func TestKeysForOtherUsesAreLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		key  string
		want int
	}{
		"a key":           {jwkOf(1, ""), 1},
		"with a use":      {jwkOf(1, `,"use":"sig","alg":"EdDSA","kid":"x","nbf":1712793600,"exp":1715385600.5`), 1},
		"for encryption":  {jwkOf(1, `,"use":"enc"`), 0},
		"X25519":          {strings.Replace(jwkOf(1, ""), "Ed25519", "X25519", 1), 0},
		"RSA":             {`{"kty":"RSA","n":"AQAB","e":"AQAB"}`, 0},
		"a short key":     {`{"kty":"OKP","crv":"Ed25519","x":"AQAB"}`, 0},
		"no base64url":    {`{"kty":"OKP","crv":"Ed25519","x":"+/+/"}`, 0},
		"a text":          {`"key"`, 0},
		"a number for x":  {`{"kty":"OKP","crv":"Ed25519","x":1}`, 0},
		"a text for nbf":  {jwkOf(1, `,"nbf":"2026"`), 0},
		"an odd deadline": {jwkOf(1, `,"exp":1e300`), 1},
	} {
		keys, exposed, err := Parse([]byte(setOf(c.key)))
		if err != nil || len(exposed) > 0 || len(keys) != c.want {
			t.Errorf("%s: got %v, %v, %v; want %d keys", name, keys, exposed, err, c.want)
		}
	}
}

func TestAKeyThatEveryoneHasIsNotUsed(t *testing.T) {
	for _, key := range []string{
		jwkOf(1, `,"d":"AAAA"`),
		`{"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}`,
	} {
		keys, exposed, err := Parse([]byte(setOf(jwkOf(2, ""), key)))
		if err != nil || len(keys) != 1 || len(exposed) != 1 || !strings.HasPrefix(exposed[0].Error(), "key 2: ") {
			t.Errorf("got %v, %v, %v", keys, exposed, err)
		}
	}
}

func TestATextThatIsNoSetIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "{", "[]", "{}", `{"keys":null}`, `{"keys":{}}`, setOf(strings.Split(strings.Repeat("{} ", 65), " ")[:65]...),
	} {
		if keys, _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%.20q: got %v, want an error", text, keys)
		}
	}
	if keys, _, err := Parse([]byte(setOf())); err != nil || keys == nil {
		t.Errorf("an empty set: got %v, %v", keys, err) // which says that all keys were removed
	}
}

func TestAKeyIsGoodFromAnInstantToAnother(t *testing.T) {
	keys, _, err := Parse([]byte(setOf(jwkOf(1, `,"nbf":1000,"exp":2000`))))
	if err != nil {
		t.Fatal(err)
	}
	key := keys[Thumbprint(keyOf(1))]
	for at, want := range map[int64]bool{999: false, 1000: true, 1999: true, 2000: false} {
		if got := key.IsGood(time.Unix(at, 0)); got != want {
			t.Errorf("at %d: got %v, want %v", at, got, want)
		}
	}
}

func TestAnOriginMeansItsWellKnownDirectory(t *testing.T) {
	const at = "https://bot.example/.well-known/http-message-signatures-directory"
	for text, want := range map[string]Place{
		"https://bot.example":        {at, at, "bot.example"},
		"https://bot.example/":       {at, at, "bot.example"},
		"HTTPS://Bot.Example:443":    {at, at, "bot.example"},
		at:                           {at, at, "bot.example"},
		at + "?v=1":                  {at, at + "?v=1", "bot.example"},
		"https://bot.example:8443/a": {"https://bot.example:8443/a", "https://bot.example:8443/a", "bot.example:8443"},
		"https://192.0.2.1/a":        {"https://192.0.2.1/a", "https://192.0.2.1/a", "192.0.2.1"},
		"https://[2001:db8::1]/a":    {"https://[2001:db8::1]/a", "https://[2001:db8::1]/a", "[2001:db8::1]"},
		"https://xn--bcher-kva.example/A-b_c": {"https://xn--bcher-kva.example/A-b_c", "https://xn--bcher-kva.example/A-b_c",
			"xn--bcher-kva.example"},
	} {
		if got, err := ParsePlace(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "bot.example", "http://bot.example", "https://", "https:bot.example", "https:///a", "//bot.example",
		"https://user@bot.example", "https://bot.example#a", "https://bot.example/#", "https://bot.example:",
		"https://bot.example/a/../b", "https://bot.example/./a", "https://bot.example/%61", "https://bot.example//a",
		"https://bücher.example", "https://bot.example.", "https://.bot.example", "https://bot example",
		"https://bot\\example",
		"data:application/json,{}", "https://[fe80::1%25eth0]/", "https://bot.example/" + strings.Repeat("a", 512),
		"https://bot.example/.hidden", "https://bot.example/\x00",
	} {
		if got, err := ParsePlace(text); err == nil {
			t.Errorf("%s: got %v, want an error", text, got)
		}
	}
}

func TestStrangersMayNameDomainsAlone(t *testing.T) {
	for text, want := range map[string]bool{
		"https://bot.example": true, "https://bot.example/jwks.json": true,
		"https://bot.example:8443": false, "https://192.0.2.1": false, "https://[2001:db8::1]": false,
		"https://localhost": false, "https://bot.example/a?b": false,
	} {
		place, err := ParsePlace(text)
		if err != nil || place.IsPublic() != want {
			t.Errorf("%s: got %v, %v; want %v", text, place.IsPublic(), err, want)
		}
	}
}

func TestOnlyPublicAddressesAreAsked(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "2600::1": true, "::ffff:8.8.8.8": true, "64:ff9b::808:808": true,
		"0.0.0.0": false, "10.1.2.3": false, "100.64.0.1": false, "127.0.0.1": false, "169.254.169.254": false,
		"172.16.0.1": false, "192.168.0.1": false, "192.0.0.1": false, "198.18.0.1": false, "224.0.0.1": false,
		"255.255.255.255": false, "240.0.0.1": false, "203.0.113.1": false,
		"::": false, "::1": false, "fe80::1": false, "fc00::1": false, "ff02::1": false, "2001:db8::1": false,
		"::ffff:127.0.0.1": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "2002:7f00:1::": false,
		"fec0::1": false, "::7f00:1": false, "2001::1": false, "100::1": false, "fe80::1%eth0": false,
	} {
		if got := isPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

func TestTheTransportRefusesAPrivateAddress(t *testing.T) {
	d := New(Place{"https://127.0.0.1:1/", "https://127.0.0.1:1/", "127.0.0.1:1"}, Options{})
	if _, err := load(t.Context(), d.client, d.place); !errors.Is(err, errPrivateAddress) {
		t.Errorf("got %v, want errPrivateAddress", err)
	}
}

func TestKeysAreFreshAsLongAsTheAnswer(t *testing.T) {
	const date = "Sun, 29 Nov 2026 12:00:00 GMT"
	for name, c := range map[string]struct {
		fields []string
		want   time.Duration
	}{
		"nothing is said": {nil, 5 * time.Minute},
		"max-age":         {[]string{"Cache-Control: public, max-age=600"}, 10 * time.Minute},
		"a quoted one":    {[]string{`Cache-Control: Max-Age="600"`}, 10 * time.Minute},
		"in a later line": {[]string{"Cache-Control: public", "Cache-Control: max-age=600"}, 10 * time.Minute},
		"Age":             {[]string{"Cache-Control: max-age=600", "Age: 240"}, 6 * time.Minute},
		"a day":           {[]string{"Cache-Control: max-age=86400"}, time.Hour},
		"a huge one":      {[]string{"Cache-Control: max-age=99999999999999999999"}, time.Hour},
		"0":               {[]string{"Cache-Control: max-age=0"}, time.Minute},
		"no number":       {[]string{"Cache-Control: max-age=-5"}, time.Minute},
		"no-store":        {[]string{"Cache-Control: no-store, max-age=600"}, time.Minute},
		"Expires":         {[]string{"Date: " + date, "Expires: Sun, 29 Nov 2026 12:20:00 GMT"}, 20 * time.Minute},
		"long ago":        {[]string{"Date: " + date, "Expires: Sun, 29 Nov 2026 11:00:00 GMT"}, time.Minute},
		"max-age first":   {[]string{"Cache-Control: max-age=600", "Expires: " + date}, 10 * time.Minute},
	} {
		h := http.Header{}
		for _, field := range c.fields {
			key, value, _ := strings.Cut(field, ": ")
			h.Add(key, value)
		}
		if got := ageOf(h); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// server is a transport that answers with a status and a body after a delay.
type server struct {
	mu     sync.Mutex
	status int
	body   string
	fields http.Header
	delay  time.Duration
	asked  atomic.Int64
}

func (s *server) set(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body = status, body
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	s.mu.Lock()
	status, body, delay := s.status, s.body, s.delay
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if status == 0 {
		return nil, errors.New("no answer")
	}
	h := http.Header{"Content-Type": {mediaType}, "Cache-Control": {"max-age=600"}}
	for name, lines := range s.fields {
		h[name] = lines
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func newServed(t *testing.T, s *server) *Directory {
	t.Helper()
	place, err := ParsePlace("https://bot.example")
	if err != nil {
		t.Fatal(err)
	}
	return New(place, Options{Transport: s})
}

// has reports whether d has a key now.
func has(t *testing.T, d *Directory, key ed25519.PublicKey) bool {
	t.Helper()
	keys, err := d.Keys(t.Context())
	if err != nil && !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	_, ok := keys[Thumbprint(key)]
	return ok
}

func wantAsked(t *testing.T, s *server, want int64) {
	t.Helper()
	synctest.Wait()
	if got := s.asked.Load(); got != want {
		t.Errorf("asked %d times, want %d", got, want)
	}
}

func TestAStampedeIsOneFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 200, body: setOf(jwkOf(1, "")), delay: 300 * time.Millisecond}
		d := newServed(t, s)
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if !has(t, d, keyOf(1)) {
					t.Error("a request does not get the key")
				}
			})
		}
		all.Wait()
		wantAsked(t, s, 1)
	})
}

func TestKeysAreRenewedBeforeTheyExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 200, body: setOf(jwkOf(1, ""))}
		d := newServed(t, s)
		has(t, d, keyOf(1))
		time.Sleep(299 * time.Second) // less than half of max-age
		has(t, d, keyOf(1))
		wantAsked(t, s, 1)
		s.set(200, setOf(jwkOf(2, "")))
		time.Sleep(151 * time.Second) // three quarters
		before := time.Now()
		if !has(t, d, keyOf(1)) || time.Since(before) > 0 {
			t.Error("a request waits although the keys have not expired")
		}
		wantAsked(t, s, 2)
		if has(t, d, keyOf(1)) || !has(t, d, keyOf(2)) {
			t.Error("a key that was removed is still good, or a new one is not")
		}
	})
}

func TestKeysThatHaveExpiredWaitForAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 200, body: setOf(jwkOf(1, "")), delay: 400 * time.Millisecond}
		d := newServed(t, s)
		has(t, d, keyOf(1))
		s.set(200, setOf(jwkOf(2, "")))
		time.Sleep(time.Hour)
		if has(t, d, keyOf(1)) {
			t.Error("a key that was removed an hour ago is good")
		}
		wantAsked(t, s, 2)
	})
}

func TestTheLastKnownKeysStayWhileFetchesFail(t *testing.T) {
	for name, fail := range map[string]func(*server){
		"no answer":  func(s *server) { s.set(0, "") },
		"status 500": func(s *server) { s.set(500, setOf()) },
		"status 404": func(s *server) { s.set(404, setOf()) },
		"a redirect": func(s *server) {
			s.set(302, "")
			s.fields = http.Header{"Location": {"https://other.example/"}}
		},
		"status 204": func(s *server) { s.set(204, "") },
		"no JSON":    func(s *server) { s.set(200, "<html>") },
		"too long":   func(s *server) { s.set(200, setOf()+strings.Repeat(" ", maxBody)) },
		"another type": func(s *server) {
			s.set(200, setOf())
			s.fields = http.Header{"Content-Type": {"text/html"}}
		},
		"too many keys": func(s *server) { s.set(200, setOf(strings.Split(strings.Repeat("{},", 65), ",")[:65]...)) },
		"a silent host": func(s *server) { s.delay = time.Hour },
		"packed content": func(s *server) {
			s.set(200, packed(setOf()))
			s.fields = http.Header{"Content-Encoding": {"gzip"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{status: 200, body: setOf(jwkOf(1, ""))}
				d := newServed(t, s)
				has(t, d, keyOf(1))
				fail(s)
				start := time.Now()
				for time.Since(start) < 12*time.Hour {
					time.Sleep(time.Minute)
					before := time.Now()
					if !has(t, d, keyOf(1)) {
						t.Fatalf("the key is gone after %v", time.Since(start))
					}
					if waited := time.Since(before); waited > patience {
						t.Fatalf("a request waits %v", waited)
					}
				}
				time.Sleep(time.Hour)
				if got := s.asked.Load(); got < 70 || got > 200 { // one in five minutes
					t.Errorf("asked %d times in half a day", got)
				}
				s.set(200, setOf(jwkOf(2, "")))
				s.fields, s.delay = nil, 0
				if !has(t, d, keyOf(2)) {
					t.Error("the next fetch that succeeds does not renew the keys")
				}
			})
		})
	}
}

func packed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text))
	w.Close()
	return b.String()
}

// Of a flood of requests for a directory that never answered, each waits only while a fetch has just
// begun.
func TestADirectoryThatFailsHoldsUpFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Hour}
		d := newServed(t, s)
		start := time.Now()
		waited := time.Duration(0)
		for time.Since(start) < time.Minute {
			before := time.Now()
			if _, err := d.Keys(t.Context()); !errors.Is(err, ErrUnavailable) {
				t.Fatalf("got %v, want ErrUnavailable", err)
			}
			waited += time.Since(before)
			time.Sleep(time.Millisecond)
		}
		if s.asked.Load() > 5 || waited > 5*patience {
			t.Errorf("asked %d times, and requests waited %v in all", s.asked.Load(), waited)
		}
		time.Sleep(time.Hour)
	})
}

func TestARequestThatIsGivenUpEndsNoFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 200, body: setOf(jwkOf(1, "")), delay: 100 * time.Millisecond}
		d := newServed(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.Keys(ctx); !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
		if !has(t, d, keyOf(1)) {
			t.Error("the fetch has ended with the request that began it")
		}
		wantAsked(t, s, 1)
	})
}

func TestRetryAfterOfADirectoryIsHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 503, fields: http.Header{"Retry-After": {"1200"}}}
		d := newServed(t, s)
		for range 119 {
			has(t, d, keyOf(1))
			time.Sleep(10 * time.Second)
		}
		wantAsked(t, s, 1)
		time.Sleep(11 * time.Second)
		has(t, d, keyOf(1))
		wantAsked(t, s, 2)
	})
}

func TestNoMoreFetchesRunThanThereAreTickets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 200, body: setOf(jwkOf(1, "")), delay: 5 * time.Second}
		options := Options{Transport: s, Tickets: make(chan struct{}, 2)}
		place, _ := ParsePlace("https://bot.example")
		for range 5 {
			New(place, options).Keys(t.Context())
		}
		wantAsked(t, s, 2)
		time.Sleep(6 * time.Second)
		New(place, options).Keys(t.Context())
		wantAsked(t, s, 3)
		time.Sleep(6 * time.Second)
	})
}

func TestEachFetchIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		s := &server{status: 200, body: setOf(jwkOf(1, ""), jwkOf(2, ""))}
		place, _ := ParsePlace("https://bot.example/jwks.json")
		d := New(place, Options{Transport: s, OnFetch: func(url string, keys int, err error) {
			seen = append(seen, fmt.Sprint(url, " ", keys, " ", err))
		}})
		d.Keys(t.Context())
		synctest.Wait()
		s.set(500, "")
		time.Sleep(time.Hour)
		d.Keys(t.Context())
		synctest.Wait()
		want := []string{"https://bot.example/jwks.json 2 <nil>",
			"https://bot.example/jwks.json 0 status 500: only 200 has keys, and redirects are not followed"}
		if fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Errorf("got %q, want %q", seen, want)
		}
	})
}

func TestThePlaceSaysWhichTypesAreTaken(t *testing.T) {
	for _, c := range []struct {
		url, contentType string
		want             bool
	}{
		{"https://bot.example", mediaType, true},
		{"https://bot.example", mediaType + "; charset=utf-8", true},
		{"https://bot.example", "application/json", false},
		{"https://bot.example", "", false},
		{"https://bot.example/jwks.json", "application/json", true},
		{"https://bot.example/jwks.json", "application/jwk-set+json", true},
		{"https://bot.example/jwks.json", mediaType, true},
		{"https://bot.example/jwks.json", "text/plain", false},
	} {
		place, _ := ParsePlace(c.url)
		if err := checkType(place, c.contentType); (err == nil) != c.want {
			t.Errorf("%s, %s: got %v", c.url, c.contentType, err)
		}
	}
}

// A directory whose agent is no more serves an empty set.
func TestAnEmptySetWithdrawsAllKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 200, body: setOf(jwkOf(1, ""))}
		place, _ := ParsePlace("https://bot.example")
		d := New(place, Options{Transport: s})
		if keys, err := d.Keys(t.Context()); err != nil || len(keys) != 1 {
			t.Fatalf("got %v, %v", keys, err)
		}
		s.body = `{"keys":[]}`
		time.Sleep(time.Hour)
		if keys, err := d.Keys(t.Context()); err != nil || len(keys) != 0 {
			t.Errorf("got %v, %v", keys, err)
		}
	})
}
