package convert_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/convert"
	"github.com/weir-go/weir/cmd/weir/internal/nginxconf"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
)

// convertText converts what is within http { }, and fails if something cannot be kept.
func convertText(t *testing.T, text string) *convert.Result {
	t.Helper()
	r := convert.Nginx("nginx.conf", []byte(text), nginxconf.Files{})
	for _, f := range r.Findings {
		if !f.Warning {
			t.Errorf("%d:%d: %s\n%s", f.Line, f.Column, f.Text, text)
		}
	}
	return r
}

// rulesOf returns the rules of a policy; none without a policy.
func rulesOf(t *testing.T, text []byte) []nethttp.Rule {
	t.Helper()
	if text == nil {
		return nil
	}
	p, err := policy.Parse("weir.yaml", text, policy.Names[*http.Request]{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p.Rules()
}

// tree is a random server, with a model of how nginx chooses a location.
type tree struct {
	exact, prefix map[string][]string // zones by path
}

// zones returns the zones in which a path counts: an exact location, else the longest prefix.
func (s *tree) zones(path string) []string {
	if zones, ok := s.exact[path]; ok {
		return zones
	}
	longest := ""
	for prefix := range s.prefix {
		if strings.HasPrefix(path, prefix) && len(prefix) > len(longest) {
			longest = prefix
		}
	}
	return s.prefix[longest]
}

func TestEachPathMeetsTheZonesOfItsLocation(t *testing.T) {
	random := testrun.Random(t)
	paths := []string{"/", "/a", "/a/", "/a/x", "/a/b", "/a/b/x", "/a/b/c/x", "/b", "/b/x", "/b/a/x", "/c/x", "/x"}
	for range testrun.Sized(300, 5000) {
		s := &tree{map[string][]string{}, map[string][]string{"/": nil}}
		conf := "server {\n"
		add := func(modifier, path string, to map[string][]string) {
			zones := []string{}
			conf += fmt.Sprintf("location %s %s {", modifier, path)
			for _, zone := range []string{"one", "two"} {
				if random.IntN(2) == 0 {
					zones = append(zones, zone)
					conf += " limit_req zone=" + zone + ";"
				}
			}
			to[path] = zones
			conf += " }\n"
		}
		for _, prefix := range shuffled(random, "/", "/a/", "/a/b/", "/a/b/c/", "/b/", "/b/a/") {
			add("", prefix, s.prefix)
		}
		for _, path := range shuffled(random, "/a/b", "/b/x", "/x") {
			add("=", path, s.exact)
		}
		conf += "}\nlimit_req_zone $binary_remote_addr zone=one:1m rate=1r/s;\n" +
			"limit_req_zone $binary_remote_addr zone=two:1m rate=1r/s;\n"
		result := convertText(t, conf)
		rules := rulesOf(t, result.Policy)
		for _, path := range paths {
			want := s.zones(path)
			got := []string{}
			for _, rule := range rules {
				if _, err := rule.Key(httptest.NewRequest("GET", path, nil)); err == nil {
					got = append(got, strings.Fields(rule.Name)[0])
				}
			}
			// weir counts /a as /a/, too, so no slash at the end escapes a limit
			more := slices.Concat(want, s.zones(path+"/"), s.zones(strings.TrimSuffix(path, "/")))
			if slices.ContainsFunc(want, func(zone string) bool { return !slices.Contains(got, zone) }) ||
				slices.ContainsFunc(got, func(zone string) bool { return !slices.Contains(more, zone) }) ||
				len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(got) {
				t.Fatalf("%s counts in %q, want %q\n%s\n%s", path, got, want, conf, result.Policy)
			}
		}
	}
}

// shuffled returns some of texts, in some order.
func shuffled(random *rand.Rand, texts ...string) []string {
	random.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	return texts[:random.IntN(len(texts)+1)]
}

func TestTheInnermostNetworkOfGeoDecides(t *testing.T) {
	random := testrun.Random(t)
	for range testrun.Sized(200, 3000) {
		conf := "geo $x { default " + value(random) + ";"
		values := map[netip.Prefix]string{}
		for range random.IntN(8) {
			// few bits, so that networks lie within each other
			addr := netip.AddrFrom4([4]byte{byte(random.IntN(4)) << 6, byte(random.IntN(2)), 0, 0})
			network := netip.PrefixFrom(addr, random.IntN(17)).Masked()
			to := value(random)
			values[network] = to
			conf += fmt.Sprintf(" %s %s;", network, to)
		}
		fallback := strings.TrimSuffix(strings.Fields(conf)[4], ";")
		conf += " }\nmap $x $key { 0 \"\"; 1 $remote_addr; }\nlimit_req_zone $key zone=one:1m rate=1r/s;\n" +
			"server { location / { limit_req zone=one; } }\n"
		result := convert.Nginx("nginx.conf", []byte(conf), nginxconf.Files{})
		rules := rulesOf(t, result.Policy)
		for range 50 {
			addr := netip.AddrFrom4([4]byte{byte(random.IntN(256)), byte(random.IntN(4)), 0, 1})
			want, bits := fallback, -1
			for network, to := range values {
				if network.Contains(addr) && network.Bits() > bits {
					want, bits = to, network.Bits()
				}
			}
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = addr.String() + ":1"
			counts := false
			for _, rule := range rules {
				_, err := rule.Key(r)
				counts = counts || err == nil
			}
			if counts != (want == "1") {
				t.Fatalf("%s counts: %v, want %s\n%s\n%s", addr, counts, want, conf, result.Policy)
			}
		}
	}
}

func value(random *rand.Rand) string { return fmt.Sprint(random.IntN(2)) }

// nginx redirects requests within itself, and counts each where it first meets a limit.
func TestRequestsThatNginxMovesToALimitAreReported(t *testing.T) {
	const limited = "location = /index.php { limit_req zone=one; fastcgi_pass php; } "
	for server, want := range map[string]string{
		limited + "location / { try_files $uri /index.php?$args; }":                                 "try_files moves",
		limited + "error_page 404 = /index.php;":                                                    "error_page moves",
		limited + "index index.html index.php;":                                                     "index moves",
		limited + "location / { limit_req zone=one; try_files $uri /index.php; } index index.php;":  "",
		limited + "location / { try_files $uri =404; error_page 404 @gone; }":                       "",
		limited + "index index.php; location / { proxy_pass http://x; }":                            "",
		limited + "location /x/ { index index.php; }":                                               "",
		"location / { limit_conn two 1; try_files $uri /a/; } location /a/ { limit_req zone=one; }": "try_files moves",
		"location / { try_files $uri /a/; } location /a/ { return 404; limit_req zone=one; }":       "",
	} {
		r := convert.Nginx("nginx.conf", []byte("limit_req_zone $remote_addr zone=one:1m rate=1r/s;\n"+
			"limit_conn_zone $remote_addr zone=two:1m;\nserver { "+server+" }"), nginxconf.Files{})
		found := ""
		for _, f := range r.Findings {
			if !f.Warning && (found == "" || strings.Contains(f.Text, " moves requests")) {
				found = f.Text
			}
		}
		if !strings.HasPrefix(found, want) || want == "" && found != "" {
			t.Errorf("%s: %q, want %q", server, found, want)
		}
	}
}

func TestWhatNginxIgnoresOrAnswersItselfIsSaid(t *testing.T) {
	const limit = "location / { limit_req zone=one; } "
	const ignores, answers = "warning: nginx ignores the name a here", "warning: nginx answers some requests here"
	for _, c := range [][2]string{
		{"server { server_name a; " + limit + "} server { server_name a; }", ignores},
		{"server { listen *:80; server_name a; " + limit + "} server { server_name b a; }", ignores},
		{"server { server_name a; " + limit + "} server { listen 81; server_name a; }", "at another port"},
		{"server { server_name a; " + limit + "} server { listen 80; listen 81; server_name a; }", "at another port"},
		{"server { server_name a A; " + limit + "}", ""},
		{"server { server_name a; } server { server_name a; }", ""},
		{"server { " + limit + "if ($scheme = http) { return 301 https://a; } }", answers},
		{"server { " + limit + "if ($http_x) { rewrite ^ /x permanent; } }", answers},
		{"server { " + limit + "rewrite ^/old /new redirect; }", answers},
		{"server { location / { limit_req zone=one; if ($http_x) { return 403; } } }", answers},
		{"server { " + limit + "location /x/ { if ($http_x) { return 403; } limit_req zone=one; } }", answers},
		{"server { " + limit + "if ($http_x) { set $y 1; } }", ""},
		{"server { if ($http_x) { return 403; } }", ""},
		{"server { location / { if ($http_x) { return 403; } } location /x/ { limit_req zone=one; } }", ""},
	} {
		servers, want := c[0], c[1]
		r := convert.Nginx("nginx.conf", []byte("limit_req_zone $remote_addr zone=one:1m rate=1r/s;\n"+
			"limit_req_status 429; "+servers), nginxconf.Files{})
		found := ""
		for _, f := range r.Findings {
			if f.Warning {
				found += "warning: "
			}
			found += f.Text
		}
		if !strings.Contains(found, want) || want == "" && found != "" {
			t.Errorf("%s: %q, want %q", servers, found, want)
		}
	}
}

// nginx reads variables in the values of a map, and not in those of a geo.
func TestAValueOfGeoIsAText(t *testing.T) {
	for key, want := range map[string]string{"$geo": "key: everybody", "$map": "key: address"} {
		r := convertText(t, "geo $geo { default $remote_addr; 10.0.0.0/8 ''; }\n"+
			"map $geo $map { '' ''; default $remote_addr; }\n"+
			"limit_req_zone "+key+" zone=one:1m rate=1r/s;\nserver { limit_req zone=one; }")
		if !strings.Contains(string(r.Policy), want) || !strings.Contains(string(r.Policy), "[10.0.0.0/8]") {
			t.Errorf("%s: no %q in\n%s", key, want, r.Policy)
		}
	}
}

func TestNoPathOfALocationIsAPatternOfItsOwn(t *testing.T) {
	const conf = "limit_req_zone $remote_addr zone=one:1m rate=1r/s;\n" +
		`server { location "/{id}/" { limit_req zone=one; } location = "/a b{$}" { limit_req zone=one; } }`
	rules := rulesOf(t, convertText(t, conf).Policy)
	for path, want := range map[string]bool{
		"/%7Bid%7D/x": true, "/a%20b%7B$%7D": true, "/7/x": false, "/a%20b": false, "/x/": false,
	} {
		_, err := rules[0].Key(httptest.NewRequest("GET", path, nil))
		if got := err == nil; got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

func TestRatesAreThoseThatNginxRoundsTo(t *testing.T) {
	for rate, want := range map[string]string{
		"10r/s": "10/second", "1r/m": "2/125s", "30r/m": "30/minute", "100r/m": "833/500s", "10r/m": "83/500s",
		"7": "7/second", "90r/m": "90/minute", "59r/m": "983/1000s",
	} {
		r := convertText(t, "limit_req_zone $remote_addr zone=one:1m rate="+rate+
			";\nserver { location / { limit_req zone=one; } }")
		if want := "limit: token-bucket " + want + " burst 1\n"; !strings.Contains(string(r.Policy), want) {
			t.Errorf("%s: want %s, got %s", rate, want, r.Policy)
		}
	}
}

func TestPlacesOfKubernetesAreThoseOfTheFile(t *testing.T) {
	const bad = "kind: Ingress\nmetadata:\n  annotations:\n    nginx.ingress.kubernetes.io/limit-rps: x\n"
	r := convert.Ingress(convert.Input{Name: "a.yaml", Text: []byte("# first\n---\n" + bad + "--- # second\n\n" + bad +
		"---\n---\n" + bad + "...: [\n")}, convert.Input{Name: "b.json", Text: []byte(`{"kind": "List", "items": [
		{"kind": "Ingress", "metadata": {"annotations": {"nginx.ingress.kubernetes.io/limit-rps": "x"}}}]}`)})
	got := ""
	for _, f := range r.Findings {
		got += fmt.Sprintf("%s:%d:%d ", f.File, f.Line, f.Column)
	}
	if want := "a.yaml:6:44 a.yaml:12:44 a.yaml:20:1 b.json:2:93 "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzNginx(f *testing.F) {
	for _, proof := range proofs {
		f.Add(proof.http)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := convert.Nginx("nginx.conf", []byte(text), nginxconf.Files{})
		rulesOf(t, r.Policy)
	})
}

func FuzzIngress(f *testing.F) {
	for _, proof := range proofs {
		f.Add(proof.ingress)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := convert.Ingress(convert.Input{Name: "ingress.yaml", Text: []byte(text)})
		rulesOf(t, r.Policy)
	})
}
