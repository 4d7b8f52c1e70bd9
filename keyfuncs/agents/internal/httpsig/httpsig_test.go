package httpsig

import (
	"bufio"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// request reads a request as a server does. Lines of text end with "\n".
func request(t testing.TB, text string) *http.Request {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(
		strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rfcKey is the key of RFC 9421, appendix B.1.4.
var rfcKey = publicKey("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs")

func publicKey(x string) ed25519.PublicKey {
	key, err := base64.RawURLEncoding.DecodeString(x)
	if err != nil {
		panic(err)
	}
	return key
}

// rfcRequest is test-request of RFC 9421, appendix B.2, with the signature of B.2.6.
const rfcRequest = `POST /foo?param=Value&Pet=dog HTTP/1.1
Host: example.com
Date: Tue, 20 Apr 2021 02:07:55 GMT
Content-Type: application/json
Content-Digest: sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:
Content-Length: 18
Signature-Input: sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length")` +
	`;created=1618884473;keyid="test-key-ed25519"
Signature: sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:

{"hello": "world"}`

// verifies reports whether the only signature of r with a tag is that of a key.
func verifies(t *testing.T, r *http.Request, tag string, key ed25519.PublicKey) bool {
	t.Helper()
	found, err := Find(r.Header, tag)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 {
		t.Fatalf("%d signatures, want 1", len(found))
	}
	base, err := found[0].AppendBase(nil, Message{r, "https"})
	return err == nil && found[0].Verify(key, base)
}

func TestTheSignatureOfTheRFCVerifies(t *testing.T) {
	if !verifies(t, request(t, rfcRequest), "", rfcKey) {
		t.Error("it does not")
	}
	for name, alter := range map[string]func(*http.Request){
		"date":           func(r *http.Request) { r.Header.Set("Date", "Tue, 20 Apr 2021 02:07:56 GMT") },
		"method":         func(r *http.Request) { r.Method = "PUT" },
		"path":           func(r *http.Request) { r.RequestURI = "/fo0?param=Value&Pet=dog" },
		"authority":      func(r *http.Request) { r.Host = "www.example.com" },
		"port":           func(r *http.Request) { r.Host = "example.com:8443" },
		"type":           func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		"another type":   func(r *http.Request) { r.Header.Add("Content-Type", "text/plain") },
		"no type":        func(r *http.Request) { r.Header.Del("Content-Type") },
		"length":         func(r *http.Request) { r.ContentLength = 19 },
		"unknown length": func(r *http.Request) { r.ContentLength = -1 },
		"created": func(r *http.Request) {
			r.Header.Set("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), "473", "474", 1))
		},
		"order": func(r *http.Request) {
			r.Header.Set("Signature-Input",
				strings.Replace(r.Header.Get("Signature-Input"), `"date" "@method"`, `"@method" "date"`, 1))
		},
		"a parameter more": func(r *http.Request) {
			r.Header.Set("Signature-Input", r.Header.Get("Signature-Input")+";expires=1618884773")
		},
		"a bit": func(r *http.Request) {
			r.Header.Set("Signature", strings.Replace(r.Header.Get("Signature"), "wqcA", "wqcB", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, rfcRequest)
			if alter(r); verifies(t, r, "", rfcKey) {
				t.Error("it still does")
			}
		})
	}
	r := request(t, rfcRequest) // what is not covered does not count
	r.Header.Set("Accept", "*/*")
	r.RequestURI = "/foo?other"
	r.Host = "Example.COM:443"
	if !verifies(t, r, "", rfcKey) {
		t.Error("it does not, if what it does not cover is altered")
	}
}

// Appendix E.2 of draft-ietf-webbotauth-httpsig-protocol-01.
func TestTheSignaturesOfTheDraftVerify(t *testing.T) {
	for name, fields := range map[string]string{
		"a Dictionary": `Signature-Agent: agent2="https://signature-agent.test"
Signature-Input: sig2=("@authority" "signature-agent";key="agent2");created=1735689600` +
			`;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=4889289600` +
			`;nonce="n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA=="` +
			`;tag="web-bot-auth"
Signature: sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:`,
		"a String": `Signature-Agent: "https://signature-agent.test"
Signature-Input: sig2=("@authority" "signature-agent");created=1735689600` +
			`;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=1735693200` +
			`;nonce="e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg=="` +
			`;tag="web-bot-auth"
Signature: sig2=:jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==:`,
	} {
		t.Run(name, func(t *testing.T) {
			text := "GET /path HTTP/1.1\nHost: example.com\n" + fields + "\n\n"
			if !verifies(t, request(t, text), "web-bot-auth", rfcKey) {
				t.Error("it does not")
			}
			other := strings.Replace(text, "https://signature-agent.test", "https://signature-agent.tesT", 1)
			if verifies(t, request(t, other), "web-bot-auth", rfcKey) {
				t.Error("it does for another agent")
			}
		})
	}
}

// parsed returns the signature whose member of Signature-Input is input, whatever its algorithm.
func parsed(t *testing.T, input string) *Signature {
	t.Helper()
	var none [ed25519.SignatureSize]byte
	h := http.Header{
		"Signature-Input": {"a=" + input},
		"Signature":       {"a=:" + base64.StdEncoding.EncodeToString(none[:]) + ":"},
	}
	for _, tag := range []string{"", "header-example"} {
		if found, err := Find(h, tag); err != nil {
			t.Fatalf("%s: %v", input, err)
		} else if len(found) == 1 {
			return &found[0]
		}
	}
	t.Fatalf("%s: not found", input)
	return nil
}

// Components are those of RFC 9421, section 2, and bases those of appendix B.2.
func TestBasesAreThoseOfTheRFC(t *testing.T) {
	const get, fields = "GET /path?param=value HTTP/1.1\nHost: www.example.com\n", `Date: Tue, 20 Apr 2021 02:07:56 GMT
X-Ows-Header:   Leading and trailing whitespace.   ` + `
Cache-Control: max-age=60
Cache-Control:    must-revalidate
Example-Dict:  a=1,    b=2;x=1;y=2,   c=(a   b   c), d
Example-Header: value, with, lots
Example-Header: of, commas
X-Empty-Header: ` + `
Other-Dict: e=:YQ:;f=?0;g=1.50, h=("i";j=-7 @1659578233);k="\"l\""

`
	const parameters = "GET /parameters?var=this%20is%20a%20big%0Amultiline%20value&bar=with+plus+whitespace" +
		"&fa%C3%A7ade%22%3A%20=something&twice=1&twice=2&none HTTP/1.1\nHost: www.example.com\n\n"
	for _, c := range []struct {
		request, input string
		want           string // all but the last line; "-": the request lacks a component
	}{
		{rfcRequest, `();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd"`, ``},
		{rfcRequest, `("@authority" "content-digest" "@query-param";name="Pet");created=1618884473` +
			`;keyid="test-key-rsa-pss";tag="header-example"`,
			`"@authority": example.com
"content-digest": sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:
"@query-param";name="Pet": dog
`},
		{rfcRequest, `("date" "@method" "@path" "@query" "@authority" "content-type" "content-length")`,
			`"date": Tue, 20 Apr 2021 02:07:55 GMT
"@method": POST
"@path": /foo
"@query": ?param=Value&Pet=dog
"@authority": example.com
"content-type": application/json
"content-length": 18
`},
		// 2.1
		{get + fields, `("host" "date" "x-ows-header" "cache-control" "example-dict" "x-empty-header")`,
			`"host": www.example.com
"date": Tue, 20 Apr 2021 02:07:56 GMT
"x-ows-header": Leading and trailing whitespace.
"cache-control": max-age=60, must-revalidate
"example-dict": a=1,    b=2;x=1;y=2,   c=(a   b   c), d
"x-empty-header": ` + `
`},
		// 2.1.2
		{get + fields, `("example-dict";key="a" "example-dict";key="d" "example-dict";key="b" "example-dict";key="c")`,
			`"example-dict";key="a": 1
"example-dict";key="d": ?1
"example-dict";key="b": 2;x=1;y=2
"example-dict";key="c": (a b c)
`},
		{get + fields, `("other-dict";key="e" "other-dict";key="h")`,
			`"other-dict";key="e": :YQ==:;f=?0;g=1.5
"other-dict";key="h": ("i";j=-7 @1659578233);k="\"l\""
`},
		{get + fields, `("other-dict";key="z")`, "-"},
		{get + fields, `("date";key="a")`, "-"},
		{get + fields, `("absent")`, "-"},
		{get + "X-Dict: a=1, a=2\n\n", `("x-dict";key="a")`, "-"},
		{get + "X-Dict: a=%\"b\"\n\n", `("x-dict";key="a")`, "-"},
		// 2.1.3
		{get + fields, `("example-header";bs)`, `"example-header";bs: :dmFsdWUsIHdpdGgsIGxvdHM=:, :b2YsIGNvbW1hcw==:` + "\n"},
		// 2.2
		{get + "\n", `("@method" "@target-uri" "@authority" "@scheme" "@request-target" "@path" "@query")`,
			`"@method": GET
"@target-uri": https://www.example.com/path?param=value
"@authority": www.example.com
"@scheme": https
"@request-target": /path?param=value
"@path": /path
"@query": ?param=value
`},
		{"GET https://www.example.com/path?param=value HTTP/1.1\nHost: other.example\n\n",
			`("@authority" "@request-target" "@path" "@query")`,
			`"@authority": www.example.com
"@request-target": https://www.example.com/path?param=value
"@path": /path
"@query": ?param=value
`},
		{"GET https://www.example.com?a HTTP/1.1\nHost: www.example.com\n\n", `("@path" "@query")`,
			"\"@path\": /\n\"@query\": ?a\n"},
		{"GET https://www.example.com HTTP/1.1\nHost: www.example.com\n\n", `("@path" "@query")`,
			"\"@path\": /\n\"@query\": ?\n"},
		{"OPTIONS * HTTP/1.1\nHost: www.example.com\n\n", `("@request-target")`, "\"@request-target\": *\n"},
		{"OPTIONS * HTTP/1.1\nHost: www.example.com\n\n", `("@path")`, "-"},
		{"CONNECT www.example.com:80 HTTP/1.1\nHost: www.example.com\n\n", `("@target-uri")`, "-"},
		{"GET /a%2Fb/./c?d=%2F HTTP/1.1\nHost: WWW.Example.com:443\n\n", `("@authority" "@path" "@query")`,
			"\"@authority\": www.example.com\n\"@path\": /a%2Fb/./c\n\"@query\": ?d=%2F\n"},
		{"GET / HTTP/1.1\nHost: www.example.com:80\n\n", `("@authority")`, "\"@authority\": www.example.com:80\n"},
		{parameters, `("@query-param";name="var" "@query-param";name="bar" "@query-param";name="fa%C3%A7ade%22%3A%20" ` +
			`"@query-param";name="none")`,
			`"@query-param";name="var": this%20is%20a%20big%0Amultiline%20value
"@query-param";name="bar": with%20plus%20whitespace
"@query-param";name="fa%C3%A7ade%22%3A%20": something
"@query-param";name="none": ` + `
`},
		{parameters, `("@query-param";name="twice")`, "-"},
		{parameters, `("@query-param";name="Var")`, "-"},
		{get + "\n", `("@status")`, "-"},
		{get + "\n", `("@unknown")`, "-"},
	} {
		s := parsed(t, c.input)
		base, err := s.AppendBase(nil, Message{request(t, c.request), "https"})
		if c.want == "-" {
			if !errors.Is(err, ErrComponent) {
				t.Errorf("%s: got %v, want ErrComponent", c.input, err)
			}
			continue
		}
		if want := c.want + `"@signature-params": ` + c.input; err != nil || string(base) != want {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", c.input, base, err, want)
		}
	}
}

// The text that is signed has the canonical form of the parameters, whatever the field has.
func TestParametersAreWrittenInTheirCanonicalForm(t *testing.T) {
	for input, want := range map[string]string{
		`(  "@path"   "@authority" );created=01;x`:      `("@path" "@authority");created=1;x`,
		`("@path" );   keyid="a\"b"; y=?1;z=?0;w=Token`: `("@path");keyid="a\"b";y;z=?0;w=Token`,
	} {
		s := parsed(t, input)
		if got := string(s.params); got != want {
			t.Errorf("%s: got %s, want %s", input, got, want)
		}
		if base, err := s.AppendBase(nil, Message{request(t, rfcRequest), "https"}); err != nil ||
			!strings.HasSuffix(string(base), `"@signature-params": `+want) {
			t.Errorf("%s: got %s, %v", input, base, err)
		}
	}
}

func TestTheLinesOfAFieldAreOne(t *testing.T) {
	const a, b = `("@authority");created=1;tag="t"`, `("@path");created=2;tag="t"`
	value := ":" + strings.Repeat("A", 86) + "==:"
	found, err := Find(http.Header{
		"Signature-Input": {"a=" + a, "b=" + b + `, c=("@method")`},
		"Signature":       {"c=:AA==:, b=" + value, "a=" + strings.Replace(value, "==", "", 1)},
	}, "t")
	if err != nil || len(found) != 2 || found[0].Label != "a" || found[1].Created != 2 {
		t.Errorf("got %v, %v", found, err)
	}
}

func TestWhatCanBeReadInTwoWaysIsMalformed(t *testing.T) {
	value := ":" + strings.Repeat("A", 86) + "==:"
	const good = `("@authority");created=1;keyid="k";tag="t"`
	many := func(n int, separator, before, after string) string {
		var all []string
		for i := range n {
			all = append(all, before+string(rune('a'+i))+after)
		}
		return strings.Join(all, separator)
	}
	for name, c := range map[string]struct{ input, value string }{
		"no field":                {"", ""},
		"no value":                {"a=" + good, ""},
		"a value of another":      {"a=" + good, "b=" + value},
		"no structured field":     {"a=" + good + ",", "a=" + value},
		"no list":                 {`a="@authority";tag="t"`, "a=" + value},
		"two of one label":        {"a=" + good + ", a=" + good, "a=" + value},
		"two values of one label": {"a=" + good, "a=" + value + ", a=" + value},
		"a value of no bytes":     {"a=" + good, "a=1"},
		"a short value":           {"a=" + good, "a=:AAAA:"},
		"a long value":            {"a=" + good, "a=:" + strings.Repeat("A", 88) + ":"},
		"a value with other bits": {"a=" + good, "a=:" + strings.Repeat("A", 85) + "B==:"},
		"a malformed value":       {"a=" + good, "a=:" + strings.Repeat("A", 85) + "-==:"},
		"a component twice":       {`a=("@path" "@authority" "@path");tag="t"`, "a=" + value},
		"a member twice":          {`a=("x";key="b" "x";key="b");tag="t"`, "a=" + value},
		"a parameter twice":       {`a=("@path");created=1;created=2;tag="t"`, "a=" + value},
		"two tags":                {`a=("@path");tag="x";tag="t"`, "a=" + value},
		"two keys":                {`a=("x";key="b";key="c");tag="t"`, "a=" + value},
		"two parameters":          {`a=("x";key="b";bs);tag="t"`, "a=" + value},
		"the parameter sf":        {`a=("x";sf);tag="t"`, "a=" + value},
		"the parameter req":       {`a=("@path";req);tag="t"`, "a=" + value},
		"the parameter tr":        {`a=("x";tr);tag="t"`, "a=" + value},
		"bs=?0":                   {`a=("x";bs=?0);tag="t"`, "a=" + value},
		"a key of @path":          {`a=("@path";key="b");tag="t"`, "a=" + value},
		"a name of @path":         {`a=("@path";name="b");tag="t"`, "a=" + value},
		"@query-param":            {`a=("@query-param");tag="t"`, "a=" + value},
		"a Token":                 {`a=(date);tag="t"`, "a=" + value},
		"upper case":              {`a=("Date");tag="t"`, "a=" + value},
		"an empty name":           {`a=("");tag="t"`, "a=" + value},
		"the name @":              {`a=("@");tag="t"`, "a=" + value},
		"a name with a line":      {`a=("date\": x");tag="t"`, "a=" + value},
		"a keyid that is a Token": {`a=("@path");tag="t";keyid=k`, "a=" + value},
		"created is a String":     {`a=("@path");created="1";tag="t"`, "a=" + value},
		"created is a Decimal":    {`a=("@path");created=1.5;tag="t"`, "a=" + value},
		"created is 0":            {`a=("@path");created=0;tag="t"`, "a=" + value},
		"expires is negative":     {`a=("@path");expires=-1;tag="t"`, "a=" + value},
		"bytes in a parameter":    {`a=("@path");x=:AA==:;tag="t"`, "a=" + value},
		"many signatures":         {many(9, ", ", "", "="+good), many(9, ", ", "", "="+value)},
		"many components":         {"a=(" + many(25, " ", `"`, `"`) + `);tag="t"`, "a=" + value},
		"many parameters":         {"a=()" + many(16, "", ";", "") + `;tag="t"`, "a=" + value},
		"a long field":            {"a=" + good + ";x=\"" + strings.Repeat("x", 8<<10) + `"`, "a=" + value},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			if c.input != "" {
				h["Signature-Input"] = []string{c.input}
			}
			if c.value != "" {
				h["Signature"] = []string{c.value}
			}
			found, err := Find(h, "t")
			if name == "no field" {
				if err != nil || len(found) > 0 || Signed(h) {
					t.Errorf("got %v, %v, want none", found, err)
				}
			} else if !errors.Is(err, ErrMalformed) {
				t.Errorf("got %v, %v, want ErrMalformed", found, err)
			}
		})
	}
}

// Whatever else a request is signed for may be of other algorithms and forms.
func TestSignaturesWithAnotherTagAreNotRead(t *testing.T) {
	found, err := Find(http.Header{
		"Signature-Input": {`a=("x";sf "@status" date);created="never";tag="other", b=()`},
		"Signature":       {`a=:AA==:, b=1`},
	}, "t")
	if err != nil || len(found) > 0 {
		t.Errorf("got %v, %v, want none", found, err)
	}
}

func TestOnlyWholeComponentsAreCovered(t *testing.T) {
	s := parsed(t, `("@authority" "x";key="a" "x";key="b" "y";bs "@query-param";name="z")`)
	for name, want := range map[string]bool{"@authority": true, "x": false, "y": false, "@query-param": false} {
		if got := s.Covers(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if got := slices.Collect(s.Members("x")); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q", got)
	}
}

func FuzzFind(f *testing.F) {
	value := ":" + strings.Repeat("A", 86) + "==:"
	f.Add(`a=("@authority" "x-dict";key="a");created=1;expires=2;keyid="k";tag="t"`, "a="+value, `a="x"`, "/p?q=1")
	f.Add(`a=("@query-param";name="q" "x-dict";key="b" "x-dict";bs);tag="t", b=();tag="t"`,
		"a="+value+",b="+value, `b=(1 2);c`, "/")
	f.Add(`a=("@target-uri"  "@method" );x=?0;tag="t"`, "a="+value, `a=:YQ:;d=1.5`, "*")
	f.Fuzz(func(t *testing.T, input, value, dict, target string) {
		h := http.Header{"Signature-Input": {input}, "Signature": {value}, "X-Dict": {dict}}
		found, err := Find(h, "t")
		if err != nil {
			if found != nil {
				t.Error("signatures besides an error")
			}
			return
		}
		r := request(t, "GET / HTTP/1.1\nHost: example.com\n\n")
		r.Header, r.RequestURI = h, target
		for i := range found {
			s := &found[i]
			base, err := s.AppendBase(nil, Message{r, "https"})
			if lines := strings.Count(string(base), "\n"); err == nil && lines != s.count {
				t.Errorf("%q has %d lines, want %d", base, lines, s.count)
			}
			// The canonical text is read as the same signature.
			h := http.Header{"Signature-Input": {s.Label + "=" + string(s.params)}, "Signature": {value}}
			again, err := Find(h, "t")
			if err != nil || len(again) != 1 || string(again[0].params) != string(s.params) ||
				again[0].covered != s.covered || again[0].KeyID != s.KeyID || again[0].Created != s.Created {
				t.Errorf("%q is %q, %v", input, s.params, err)
			}
		}
	})
}
