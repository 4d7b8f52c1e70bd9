package keyfuncs_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/keyfuncs"
)

func basic(userAndPassword string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(userAndPassword))
}

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestADigestCanBeMadeWithCommonTools(t *testing.T) {
	// printf %s abc | sha256sum | cut -c1-32
	if got := keyfuncs.Digest("abc"); got != "ba7816bf8f01cfea414140de5dae2223" {
		t.Errorf("got %s", got)
	}
	for _, n := range []int{0, 1, 63, 64, 1023, 1024, 1025, 2048, 5000} {
		secret := strings.Repeat("s", n)
		if got, want := keyfuncs.Digest(secret), sha(secret)[:32]; got != want {
			t.Errorf("%d bytes: got %s, want %s", n, got, want)
		}
	}
}

func TestAHeaderIsItsOwnKey(t *testing.T) {
	key := keyfuncs.Header("x-tenant")
	wantKey(t, key, request("", "X-Tenant: acme"), "acme")
	wantKey(t, key, request("", "X-Tenant:  \tacme \t"), "acme")
	wantAbsent(t, key, request(""))
	wantAbsent(t, key, request("", "X-Tenant: "))
	wantAbsent(t, key, request("", "X-Tenant:  \t "))
}

// The handler may use another line than the limiter.
func TestSeveralLinesOfACredentialAreAnError(t *testing.T) {
	for name, c := range map[string]struct {
		key    key
		fields []string
	}{
		"header":        {keyfuncs.Header("X-Tenant"), []string{"X-Tenant: a", "X-Tenant: b"}},
		"an empty line": {keyfuncs.Header("X-Tenant"), []string{"X-Tenant: ", "X-Tenant: b"}},
		"API key":       {keyfuncs.APIKey("X-API-Key"), []string{"X-API-Key: a", "X-API-Key: a"}},
		"bearer token":  {keyfuncs.BearerToken, []string{"Authorization: Bearer a", "Authorization: Bearer b"}},
		"two schemes":   {keyfuncs.BearerToken, []string{"Authorization: Basic YTpi", "Authorization: Bearer b"}},
		"basic user":    {keyfuncs.BasicAuthUser, []string{basic("a:b"), basic("c:d")}},
		"inside a First": {
			keyfuncs.First(keyfuncs.APIKey("X-API-Key"), keyfuncs.Address(keyfuncs.Peer)),
			[]string{"X-API-Key: a", "X-API-Key: b"},
		},
	} {
		t.Run(name, func(t *testing.T) { wantUnidentified(t, c.key, request("203.0.113.7:1", c.fields...)) })
	}
}

func TestALongValueIsRepresentedByItsDigest(t *testing.T) {
	longest, long := strings.Repeat("x", 64), strings.Repeat("x", 65)
	for name, c := range map[string]struct {
		key key
		of  func(value string) *http.Request
	}{
		"header":  {keyfuncs.Header("X-Tenant"), func(v string) *http.Request { return request("", "X-Tenant: "+v) }},
		"basic":   {keyfuncs.BasicAuthUser, func(v string) *http.Request { return request("", basic(v+":password")) }},
		"context": {keyfuncs.FromContext(user), func(v string) *http.Request { return withUser(request(""), v) }},
		"path": {keyfuncs.Path, func(v string) *http.Request {
			r := request("")
			r.URL.Path = v
			return r
		}},
	} {
		t.Run(name, func(t *testing.T) {
			wantKey(t, c.key, c.of(longest), longest)
			wantKey(t, c.key, c.of(long), "sha256:"+sha(long))
			if name == "basic" {
				return // a user name cannot contain a colon
			}
			// A value that equals the digest of another does not share its key.
			wantKey(t, c.key, c.of("sha256:"+sha(long)), "sha256:"+sha("sha256:"+sha(long)))
		})
	}
}

func TestNamesThatAreNoneMakeNoKeyFunction(t *testing.T) {
	for _, name := range []string{
		"", " ", "X Tenant", "X-Tenant:", "Ä", "Host", "host", "X-Forwarded-For", "forwarded",
	} {
		if keyfuncs.Header(name) != nil {
			t.Errorf("Header(%q) is not nil", name)
		}
		if keyfuncs.APIKey(name) != nil {
			t.Errorf("APIKey(%q) is not nil", name)
		}
	}
	for _, name := range []string{"", "a b", "a=b", "a;b"} {
		if keyfuncs.Cookie(name) != nil {
			t.Errorf("Cookie(%q) is not nil", name)
		}
	}
	if keyfuncs.FromContext(nil) != nil || keyfuncs.MuxPattern(nil) != nil {
		t.Error("a nil argument must make a nil key function")
	}
}

func TestASecretNeverBecomesAKey(t *testing.T) {
	const secret = "hunter2-hunter2"
	r := request("", "X-API-Key: "+secret, "Cookie: session="+secret)
	wantKey(t, keyfuncs.APIKey("X-API-Key"), r, keyfuncs.Digest(secret))
	wantKey(t, keyfuncs.Cookie("session"), r, keyfuncs.Digest(secret))
	wantKey(t, keyfuncs.BearerToken, request("", "Authorization: Bearer "+secret), keyfuncs.Digest(secret))
	wantKey(t, keyfuncs.BasicAuthUser, request("", basic("alice:"+secret)), "alice")
}

// Over HTTP/2, white space around a value arrives as it was sent.
func TestWhiteSpaceDoesNotMultiplyACredential(t *testing.T) {
	for _, value := range []string{"k", " k", "k ", "\tk  ", "  k\t"} {
		wantKey(t, keyfuncs.APIKey("X-API-Key"), request("", "X-API-Key:"+value), keyfuncs.Digest("k"))
		wantKey(t, keyfuncs.BearerToken, request("", "Authorization: Bearer "+value), keyfuncs.Digest("k"))
		wantKey(t, keyfuncs.BearerToken, request("", "Authorization:  bearer\t"+value), keyfuncs.Digest("k"))
	}
}

func TestTheAuthenticationSchemeIsCaseInsensitive(t *testing.T) {
	for _, scheme := range []string{"Bearer", "bearer", "BEARER"} {
		wantKey(t, keyfuncs.BearerToken, request("", "Authorization: "+scheme+" k"), keyfuncs.Digest("k"))
	}
	for _, scheme := range []string{"Basic", "basic", "BASIC"} {
		wantKey(t, keyfuncs.BasicAuthUser, request("", "Authorization: "+scheme+" YWxpY2U6cA=="), "alice")
	}
}

func TestAnotherSchemeIsAnAbsentCredential(t *testing.T) {
	for _, value := range []string{
		"", "Bearer", "Bearer ", "Bearerk", "Basic YWxpY2U6cA==", "Digest username=alice", "k",
	} {
		wantAbsent(t, keyfuncs.BearerToken, request("", "Authorization: "+value))
	}
	wantAbsent(t, keyfuncs.BearerToken, request(""))
	for _, value := range []string{"", "Basic", "Basic ", "Bearer YWxpY2U6cA==", "Baſic YWxpY2U6cA=="} {
		wantAbsent(t, keyfuncs.BasicAuthUser, request("", "Authorization: "+value))
	}
	wantAbsent(t, keyfuncs.BasicAuthUser, request(""))
}

func TestThePasswordTakesNoPartInTheKey(t *testing.T) {
	for _, password := range []string{"", "a", "b:c", strings.Repeat("p", 10_000)} {
		wantKey(t, keyfuncs.BasicAuthUser, request("", basic("alice:"+password)), "alice")
	}
}

func TestMalformedBasicCredentialsAreAbsent(t *testing.T) {
	for _, field := range []string{
		"Authorization: Basic !!!!",
		"Authorization: Basic YWxpY2U6c",  // not a multiple of four
		"Authorization: Basic YWxpY2U=",   // no colon
		"Authorization: Basic OnBhc3M=",   // no user
		"Authorization: Basic YWxpY2U6_w", // another alphabet
		"Authorization: Basic " + strings.Repeat("!", 10_000),
	} {
		wantAbsent(t, keyfuncs.BasicAuthUser, request("", field))
	}
	wantUnidentified(t, keyfuncs.BasicAuthUser, request("", basic(strings.Repeat("a", 10_000)+":p")))
	wantUnidentified(t, keyfuncs.BasicAuthUser, request("", basic(strings.Repeat("a", 768)+":p")))
	wantAbsent(t, keyfuncs.BasicAuthUser, request("", basic(strings.Repeat("a", 768)))) // all of it is read
	long := strings.Repeat("a", 767)
	wantKey(t, keyfuncs.BasicAuthUser, request("", basic(long+":p")), "sha256:"+sha(long))
}

func TestTheCookieIsTheOneThatTheHandlerSees(t *testing.T) {
	key := keyfuncs.Cookie("sid")
	for _, lines := range [][]string{
		{"sid=a"}, {`sid="a"`}, {"x=y; sid=a; z"}, {"sid=a; sid=b"}, {"sid=b", "sid=a"},
		{`sid=\; sid=a`}, {"SID=b; sid=a"}, {" sid =a"}, {"xsid=b;sid=a"}, {";;sid=a;"}, {"x=sid=b; sid=a"},
		{"sid=a=b"}, {"sid=a b"},
	} {
		r := request("")
		r.Header["Cookie"] = lines
		cookie, err := r.Cookie("sid")
		if err != nil {
			t.Fatalf("%q: %v", lines, err)
		}
		wantKey(t, key, r, keyfuncs.Digest(cookie.Value))
	}
	for _, line := range []string{"", "sid", "sid=", `sid=""`, "x=y", `sid=a"b`, "Sid=a", "sid=\x7f"} {
		wantAbsent(t, key, request("", "Cookie: "+line))
	}
	wantAbsent(t, key, request(""))
}

// wantSameCookie fails if key, of the cookie called name, differs from the key of
// r.Cookie.
func wantSameCookie(t *testing.T, key key, r *http.Request, name string) {
	t.Helper()
	if cookie, err := r.Cookie(name); err == nil && cookie.Value != "" {
		wantKey(t, key, r, keyfuncs.Digest(cookie.Value))
	} else {
		wantAbsent(t, key, r)
	}
}

func TestAsManyCookiesAreReadAsTheHandlerReads(t *testing.T) {
	key := keyfuncs.Cookie("sid")
	for _, setting := range []string{
		"", "httpcookiemaxnum=50", "httpcookiemaxnum=100", "httpcookiemaxnum=4000", "httpcookiemaxnum=0",
	} {
		t.Run(setting, func(t *testing.T) {
			if setting != "" {
				t.Setenv("GODEBUG", setting)
			}
			for _, n := range []int{1, 49, 50, 51, 52, 99, 100, 101, 2999, 3000, 3001, 4000, 4001, 10_000} {
				inFront := request("")
				inFront.Header["Cookie"] = []string{"sid=a" + strings.Repeat(";x=y", n-1)}
				wantSameCookie(t, key, inFront, "sid")
				behind := request("")
				behind.Header["Cookie"] = []string{strings.Repeat(";", n-1) + "sid=a"}
				wantSameCookie(t, key, behind, "sid")
				lines := request("")
				lines.Header["Cookie"] = append(slices.Repeat([]string{"x=y"}, n-1), "sid=a")
				wantSameCookie(t, key, lines, "sid")
			}
		})
	}
}

// If a token with a text beside it had a key, each text would be another key.
func TestABearerTokenIsAToken68(t *testing.T) {
	for _, token := range []string{
		"k", "0", "mF_9.B5f-4.1JqM", "a+b/c~d", "eyJhbGciOiJIUzI1NiJ9.e30.c2ln", "Zm9vYg==", "k=",
	} {
		wantKey(t, keyfuncs.BearerToken, request("", "Authorization: Bearer "+token), keyfuncs.Digest(token))
	}
	for _, token := range []string{
		"", "=", "==", "=k", "k=k", "k k", "k  k", "k\tk", "k,", "k, k", "k,k", "k;", "k; realm=x", `"k"`, "k\x00",
		"k\x7f", "k\u00e4", "k\xff", "k:p", "k@x", "k\\",
	} {
		r := request("")
		r.Header["Authorization"] = []string{"Bearer " + token}
		wantAbsent(t, keyfuncs.BearerToken, r)
	}
	first := keyfuncs.First(keyfuncs.BearerToken, keyfuncs.Address(keyfuncs.Peer))
	for _, beside := range []string{"1", "2"} {
		wantKey(t, first, request("203.0.113.7:1", "Authorization: Bearer k "+beside), "1:203.0.113.7")
	}
}

type userKey struct{}

func user(ctx context.Context) (string, bool) {
	name, ok := ctx.Value(userKey{}).(string)
	return name, ok
}

func withUser(r *http.Request, name string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), userKey{}, name))
}

func TestAValueOfTheContextIsAKey(t *testing.T) {
	key := keyfuncs.FromContext(user)
	wantKey(t, key, withUser(request(""), "alice"), "alice")
	wantAbsent(t, key, request(""))
	wantAbsent(t, key, withUser(request(""), ""))
}

// Otherwise every made-up credential would be a fresh limit.
func TestAnUnknownCredentialIsAbsent(t *testing.T) {
	key := keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k-alice", "k-bob"))
	wantKey(t, key, request("", "X-API-Key: k-alice"), keyfuncs.Digest("k-alice"))
	wantKey(t, key, request("", "X-API-Key: k-bob"), keyfuncs.Digest("k-bob"))
	for _, secret := range []string{"k-eve", "k-alic", "K-ALICE", "", keyfuncs.Digest("k-alice")} {
		wantAbsent(t, key, request("", "X-API-Key: "+secret))
	}
	wantUnidentified(t, key, request("", "X-API-Key: k-alice", "X-API-Key: k-bob"))

	first := keyfuncs.First(key, keyfuncs.Address(keyfuncs.Peer))
	wantKey(t, first, request("203.0.113.7:1", "X-API-Key: k-eve"), "1:203.0.113.7")
	wantKey(t, first, request("203.0.113.7:1", "X-API-Key: k-eve2"), "1:203.0.113.7")

	tenants := []string{"acme"}
	tenant := keyfuncs.Known(keyfuncs.Header("X-Tenant"),
		func(key string) bool { return slices.Contains(tenants, key) })
	wantKey(t, tenant, request("", "X-Tenant: acme"), "acme")
	wantAbsent(t, tenant, request("", "X-Tenant: evil"))
	wantAbsent(t, keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet()), request("", "X-API-Key: k"))
}

func TestKnownOfNothingIsNil(t *testing.T) {
	if keyfuncs.Known(keyfuncs.BearerToken, nil) != nil ||
		keyfuncs.Known[*http.Request](nil, keyfuncs.DigestSet("k")) != nil {
		t.Error("a nil argument must make a nil key function")
	}
}
