package accesslog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
)

// FuzzLog reads any text in any format: every line is an entry or is counted.
func FuzzLog(f *testing.F) {
	for i, s := range samples {
		f.Add(s.text+"\n"+s.text[:len(s.text)/2], byte(i))
	}
	formats := append(accesslog.Formats(), "auto")
	f.Fuzz(func(t *testing.T, text string, n byte) {
		o := accesslog.Options{Format: formats[int(n)%len(formats)], Extras: []string{"header.User-Agent"}}
		if o.Format == "jsonl" {
			o.Fields = map[string]string{"time": "time", "address": "ip", "method": "m", "path": "p", "duration": "d"}
		}
		l, err := accesslog.New("fuzz", strings.NewReader(text), &o)
		if err != nil {
			return
		}
		defer l.Close()
		e := accesslog.Entry{Extra: make([]string, 1)}
		requests := int64(0)
		for l.Next(&e) {
			requests++
			if !e.Address.IsValid() || e.Method == "" || e.Target == "" || e.At < 0 || e.Lasted < 0 || e.Bytes < 0 ||
				e.Status < 0 || e.Status > 999 {
				t.Fatalf("got %+v", e)
			}
			if !strings.HasPrefix(e.Target, "/") && e.Target != "*" {
				t.Fatalf("target %q", e.Target)
			}
		}
		c := l.Counts()
		if sum := requests + c.Unread() + c.NoAddress + c.NoRequest + c.Other; c.Requests != requests ||
			c.Lines != sum {
			t.Fatalf("%d entries, %+v", requests, c)
		}
	})
}

// FuzzJSON compares the scanner of JSON lines with encoding/json.
func FuzzJSON(f *testing.F) {
	for _, s := range samples {
		f.Add(s.text)
	}
	f.Add(`{"a":{"b":["x","y",1.5e3]},"c":null,"d":true,"\u0061":"\ud83d\ude00"}`)
	f.Fuzz(func(t *testing.T, text string) {
		accesslog.CheckJSON(t, text, json.Valid([]byte(text)))
	})
}

// FuzzText compares texts with escapes with encoding/json.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		`\"\\\/\b\f\n\r\t`, `\u00e9\u20ACx`, `\ud83d\ude00`, `\ud83dx`, `\ud83d\u0041`, `\ude00\ud83d`, `\u12`,
		`\u+123`, `\x`, `\`, "\\n\xff\xc3", "a\tb", `\u0000`, `\ud83d\`, `\uD83D\uD83D\uDE00`,
	} {
		f.Add(s)
	}
	f.Fuzz(accesslog.CheckText)
}
