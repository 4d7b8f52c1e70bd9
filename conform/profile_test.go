package conform

import (
	"strings"
	"testing"
)

func TestAProfileReportsEveryMistake(t *testing.T) {
	for text, want := range map[string]string{
		"":               "p.yaml: the file is empty: write name, url and limit",
		"[1]":            "p.yaml:1:1: must be a map",
		"nam: x":         `p.yaml:1:1: there is no field "nam": the fields are name, `,
		"name:":          "name: has no value",
		"url: 7":         `url: must be an address such as http://127.0.0.1:$PORT/ (got "7")`,
		"limit: 10 an h": "limit: write it as in 10 per 2s",
		"limit: 10 per 1m": "the period must be 100ms to 10s, since checks wait for several of them (got 1m0s): " +
			"set the server up with a short one",
		"limit: 2000 per 2s":                            "must be at most 1000 requests (got 2000)",
		"algorithm: windows\nlimit: 10 per 2s":          "algorithm: must be token-bucket, leaky-bucket, fixed-window,",
		"burst: 20\nlimit: 10 per 2s":                   "burst: only a bucket",
		"key: cookie":                                   "key: must be header NAME, address, address in NAME or none",
		"denied: 200":                                   "denied: must be a status, 400 to 599",
		"fields: [draft-5]":                             "fields: must be retry-after, x-ratelimit,",
		"fields: [draft-6, draft-6]":                    "draft-6 is here twice",
		"counts-denied: no":                             "counts-denied: must be true or false",
		"store: memcached":                              "store: must be redis",
		"store: redis":                                  "store and prepare: need start",
		"url: http://127.0.0.1:$PORT/":                  "p.yaml:1:6: url: $PORT needs start: add the command",
		"send: [a]":                                     "send: must be a map of fields",
		"send: {a b: c}":                                "send: must have names of fields with a text each",
		"name: a\nname: b":                              "p.yaml:2:1: name: is here twice",
		"name: {a: b}":                                  "name: must be a text or a number (got a map)",
		"key: address":                                  "name: is required: add it",
		"name: ''":                                      "p.yaml:1:1: name: has no value",
		"name: \"a\\nb\"":                               "name: must be one line",
		"start: \"a\\0b\"":                              "a command cannot have a character with the number 0",
		"url: http://:8080/":                            "url: must be an address such as",
		"limit: token-bucket 10 per 2s":                 "limit: write the rate alone, as in 10 per 2s, and the name",
		"limit: ban 10/2s for 5s":                       "limit: write the rate alone",
		"key: header a:b":                               "key: must have the name of a header field",
		"key: header kéy":                               "key: must have the name of a header field",
		"key: header host":                              "key: requests cannot have a Host of their own",
		"key: address in content-length":                "key: requests cannot have a Content-Length of their own",
		"send: {é: c}":                                  "send: must have names of fields with a text each",
		"send: {a: null}":                               "send: must have names of fields with a text each",
		"send: {a: \"b\\nc\"}":                          "p.yaml:1:11: send: A: must be one line",
		"send: {a: b, A: c}":                            "p.yaml:1:14: send: A is here twice",
		"send: {connection: close}":                     "send: requests cannot have a Connection of their own",
		"send: {a: b}\nkey: header A":                   "send: A is the field of key",
		"start: x\nurl: http://127.0.0.1:80/":           "p.yaml:2:6: url: start needs $PORT in place of the port",
		"limit: 10 per 2s\nalgorithm: gcra\nburst: ten": "is not a whole number",
	} {
		_, err := Parse("p.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestAProfileIsRead(t *testing.T) {
	p, err := Parse("a/p.yaml", []byte("name: n 1.2\nstart: ./n\nurl: http://127.0.0.1:$PORT/x\nlimit: 10/2s\n"+
		"algorithm: gcra\nburst: 20\nkey: address in x-real-ip\ndenied: 503\nfields: retry-after\n"+
		"counts-denied: true\nstore: redis\nprepare: make\nsend: {host: a.example}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Limit.String() != "token-bucket 10/2s burst 20" || !p.Named || p.folder != "a" || p.Denied != 503 ||
		p.Key != (Key{FromForwarded, "X-Real-Ip"}) || p.CountsDenied != Yes || p.Store != "redis" ||
		p.Send.Get("Host") != "a.example" {
		t.Errorf("got %+v", p)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("name: n\nurl: http://127.0.0.1:$PORT/x\nlimit: 10/2s\nkey: address\nfields: [draft-6]")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse("p.yaml", []byte(text))
		if err == nil && (p.units() < 1 || p.period() < leastPeriod || p.burst() < 1) {
			t.Errorf("got %+v", p)
		}
	})
}
