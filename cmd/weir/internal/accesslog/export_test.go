package accesslog

import (
	"encoding/json"
	"strings"
	"testing"
)

// CheckJSON compares what the scanner finds in text with what encoding/json does.
func CheckJSON(t *testing.T, text string, valid bool) {
	var s scanner
	paths := []string{"a", "a.b", "c", "time", "request.uri", "request.headers.User-Agent"}
	for _, path := range paths {
		s.want(path)
	}
	read := s.scan([]byte(text))
	var all map[string]any
	isObject := valid && json.Unmarshal([]byte(text), &all) == nil && all != nil
	if isObject && !read && !isDeep(all, 0) {
		t.Fatalf("%q is an object and was not read", text)
	}
	if !isObject || !read {
		return
	}
	if name := `"time"`; strings.Count(text, name) > 1 || strings.Contains(text, `\`) {
		return // of equal names, the first counts here and the last there
	}
	if v := s.values[s.wanted["time"]]; v.known {
		if want, ok := all["time"].(string); ok && want != string(v.text) &&
			strings.ToValidUTF8(string(v.text), "\ufffd") != want {
			t.Fatalf("%q: got %q, want %q", text, v.text, want)
		}
	}
}

// CheckText compares a text in quotes, which has escapes, with what encoding/json reads.
func CheckText(t *testing.T, text string) {
	quoted := []byte(`"` + text + `"`)
	var want string
	valid := json.Unmarshal(quoted, &want) == nil
	got, rest, ok := quotedText(quoted)
	whole := ok && len(rest) == 0
	if !valid && strings.Contains(text, `\x`) {
		return // nginx writes such escapes
	}
	if valid != whole || valid && strings.Contains(text, `\`) && string(got) != want {
		t.Fatalf("%s: got %q, %v, encoding/json reads %q, %v", quoted, got, whole, want, valid)
	}
}

// isDeep reports whether v may be deeper than the scanner looks.
func isDeep(v any, depth int) bool {
	if depth > maxDepth-1 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			if isDeep(inner, depth+1) {
				return true
			}
		}
	case []any:
		for _, inner := range v {
			if isDeep(inner, depth+1) {
				return true
			}
		}
	}
	return false
}
