package tokens_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/tokens"
)

// FuzzAnswer reads an answer in pieces. The usage must be that of the whole, and that which
// encoding/json finds if the answer is a JSON value. Each byte must pass.
func FuzzAnswer(f *testing.F) {
	for _, a := range answers {
		f.Add([]byte(a.text), a.media == stream, a.byText, uint64(1))
	}
	for _, s := range services {
		f.Add([]byte(s.text), false, false, uint64(4))
	}
	f.Add([]byte(`{"usage":{"prompt_tokens":1},"usage":{"prompt_tokens":2,"completion_tokens":3}}`), false, false,
		uint64(2))
	f.Add([]byte(`{"choices":[{"delta":{"a":["x",{"type":"y"},"z"]}}],"delta":"x","x":{"delta":"y"}}`), false, true,
		uint64(3))
	f.Fuzz(func(t *testing.T, answer []byte, inEvents, byText bool, seed uint64) {
		media := plain
		if inEvents {
			media = stream
		}
		read := func(media string, pieces ...[]byte) tokens.Usage {
			c := call(t, tokens.Config{CountText: byText}, tokens.ChatCompletions)
			c.Answer(http.StatusOK, header(media))
			for _, piece := range pieces {
				c.Write(piece)
			}
			return c.Usage()
		}
		whole, pieces := read(media, answer), cut(answer, seed)
		if got := read(media, pieces...); got != whole {
			t.Errorf("in pieces %+v, in one %+v", got, whole)
		}
		if min(whole.Cached, whole.CacheWrites, whole.Output, whole.Reasoning, whole.Input-whole.Cached-whole.CacheWrites,
			whole.Output-whole.Reasoning) < 0 {
			t.Errorf("the parts are more than the whole: %+v", whole)
		}
		if got := passed(t, media, pieces); !bytes.Equal(got, answer) {
			t.Errorf("the client got %q", got)
		}
		if !json.Valid(answer) || bytes.ContainsRune(answer, '\\') { // names that are escaped do not count
			return
		}
		if want := readSlowly(answer, false); read(plain, answer) != want {
			t.Errorf("as JSON %+v, want %+v", read(plain, answer), want)
		}
		if !bytes.ContainsAny(answer, "\r\n") {
			event := slices.Concat([]byte("data: "), answer, []byte("\n\n"))
			if want := readSlowly(answer, byText); read(stream, event) != want {
				t.Errorf("as an event %+v, want %+v", read(stream, event), want)
			}
		}
	})
}

// cut returns text in pieces of random length.
func cut(text []byte, seed uint64) (pieces [][]byte) {
	random := rand.New(rand.NewPCG(seed, 0))
	for len(text) > 0 {
		n := 1 + random.IntN(min(len(text), 1+random.IntN(100)))
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}

// passed returns what a client gets of pieces.
func passed(t *testing.T, media string, pieces [][]byte) []byte {
	w := httptest.NewRecorder()
	unlimited := func(next http.Handler) http.Handler { return next }
	tokens.MustNew(tokens.Config{}).Handler(tokens.Messages, unlimited, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", media)
			for _, piece := range pieces {
				if n, err := w.Write(piece); n != len(piece) || err != nil {
					t.Errorf("wrote %d bytes: %v", n, err)
				}
			}
		})).ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader("{}")))
	return w.Body.Bytes()
}

// readSlowly returns the usage in a JSON value by its paths, by way of encoding/json.
func readSlowly(answer []byte, byText bool) tokens.Usage {
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	text := 0
	var path []string // names of members, and "[]" for arrays
	last, isKey := "", false
	var objects []bool
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		at := strings.Join(path, ".") + "."
		inDelta := strings.HasPrefix(at, "delta.") || strings.HasPrefix(at, "choices.[].delta.")
		value := true
		switch v := token.(type) {
		case json.Delim:
			switch v {
			case '{':
				objects, isKey, value = append(objects, true), true, false
				path = append(path, "") // of the member
			case '[':
				objects, isKey, value = append(objects, false), false, false
				path = append(path, "[]")
			default:
				objects, path, last = objects[:len(objects)-1], path[:len(path)-1], ""
			}
		case string:
			if isKey {
				path[len(path)-1], last, isKey, value = v, v, false, false
			} else if inDelta && !slices.Contains([]string{"type", "role", "id", "signature"}, last) {
				text += lengthOf(d, answer)
			}
		}
		if value && len(objects) > 0 {
			isKey = objects[len(objects)-1]
		}
	}
	d = json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	s := slow{value: treeOf(d)}
	return s.usage((text+3)/4, byText)
}

// lengthOf returns the length of the string that d has just read, as it is written.
func lengthOf(d *json.Decoder, answer []byte) int {
	end := int(d.InputOffset()) - 1
	return end - 1 - bytes.LastIndexByte(answer[:end], '"')
}

type (
	object []member
	list   []any
)

// treeOf returns a value with all members, those that are there twice, too.
func treeOf(d *json.Decoder) any {
	token, err := d.Token()
	if err != nil {
		panic(err)
	}
	switch token {
	case json.Delim('{'):
		o := object{}
		for d.More() {
			key, _ := d.Token()
			o = append(o, member{key.(string), treeOf(d)})
		}
		d.Token()
		return o
	case json.Delim('['):
		l := list{}
		for d.More() {
			l = append(l, treeOf(d))
		}
		d.Token()
		return l
	}
	return token
}

// all returns the values at a path below v, in their order.
func all(v any, path ...string) (found []any) {
	if len(path) == 0 {
		return []any{v}
	}
	switch v := v.(type) {
	case object:
		for _, m := range v {
			if m.key == path[0] && path[0] != "[]" {
				found = append(found, all(m.value, path[1:]...)...)
			}
		}
	case list:
		for _, e := range v {
			if path[0] == "[]" {
				found = append(found, all(e, path[1:]...)...)
			}
		}
	}
	return found
}

// told returns the largest number at the paths below v, or −1.
func toldAt(v any, paths ...string) (most int64) {
	most = -1
	for _, path := range paths {
		for _, n := range all(v, strings.Split(path, ".")...) {
			if n, ok := numberOf(n); ok {
				most = max(most, n)
			}
		}
	}
	return most
}

// numberOf returns a number or a text that is one, rounded up.
func numberOf(v any) (int64, bool) {
	var text string
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	default:
		return 0, false
	}
	if len(text) > 48 {
		return math.MaxInt64 - 1, strings.Trim(text[:48], "0123456789") == ""
	}
	if !regexp.MustCompile(`^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$`).MatchString(text) {
		return 0, false
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok {
		panic(text)
	}
	q, r := new(big.Int).QuoRem(n.Num(), n.Denom(), new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsInt64() {
		return math.MaxInt64 - 1, true
	}
	return min(q.Int64(), math.MaxInt64-1), true
}

func add(a, b int64) int64 { return int64(min(uint64(a)+uint64(b), math.MaxInt64)) }

// slow reads a usage without state, as the guide says it.
type slow struct {
	value               any
	u                   tokens.Usage
	hasInput, hasOutput bool
	total               int64
	others, advice      tokens.Usage
}

// both returns the paths below the details of the input or the output.
func both(of, name string) []string {
	if of == "input" {
		return []string{"prompt_tokens_details." + name, "input_tokens_details." + name}
	}
	return []string{"completion_tokens_details." + name, "output_tokens_details." + name}
}

// inputOf returns the input in a usage, whose parts may be more than the whole.
func inputOf(v any) (u tokens.Usage, known bool) {
	zero := func(paths ...string) int64 { return max(0, toldAt(v, paths...)) }
	prompt, input := toldAt(v, "prompt_tokens"), toldAt(v, "input_tokens")
	read, made := zero("cache_read_input_tokens"), zero("cache_creation_input_tokens")
	u.Cached = zero(append(both("input", "cached_tokens"), "cached_tokens", "prompt_cache_hit_tokens",
		"num_cached_tokens", "prompt_token_details.cached_tokens")...)
	u.CacheWrites = zero(append(both("input", "cache_write_tokens"), "prompt_tokens_details.cache_creation_tokens",
		"prompt_tokens_details.cache_creation_input_tokens")...)
	if prompt >= 0 {
		u.Input, u.Cached, u.CacheWrites = max(prompt, input), max(u.Cached, read), max(u.CacheWrites, made)
		read, made = 0, 0
	} else {
		u.Input = max(0, input)
	}
	if parts := add(u.Cached, u.CacheWrites); parts > u.Input {
		u.Input = add(u.Input, parts)
	}
	u.Input, u.Cached, u.CacheWrites = add(u.Input, add(read, made)), add(u.Cached, read), add(u.CacheWrites, made)
	u.Input = add(u.Input, zero("citation_tokens"))
	u.HourWrites = zero("cache_creation.ephemeral_1h_input_tokens",
		"prompt_tokens_details.cache_creation.ephemeral_1h_input_tokens",
		"prompt_tokens_details.cache_creation_token_details.ephemeral_1h_input_tokens")
	u.Audio = zero(both("input", "audio_tokens")...)
	u.Images = add(zero(both("input", "image_tokens")...), zero("prompt_tokens_details.video_tokens"))
	return tokens.Bounded(u), max(prompt, input) >= 0
}

func outputOf(v any) (u tokens.Usage, known bool) {
	zero := func(paths ...string) int64 { return max(0, toldAt(v, paths...)) }
	u.Output = zero("completion_tokens", "output_tokens")
	u.Reasoning = zero(append(both("output", "reasoning_tokens"), "output_tokens_details.thinking_tokens",
		"reasoning_tokens")...)
	if u.Reasoning > u.Output {
		u.Output = add(u.Output, u.Reasoning)
	}
	u.AudioOutput = zero(both("output", "audio_tokens")...)
	u.ImageOutput = zero(both("output", "image_tokens")...)
	return u, toldAt(v, "completion_tokens", "output_tokens") >= 0
}

// joined returns the numbers of both, joined by f.
func joined(a, b tokens.Usage, f func(a, b int64) int64) tokens.Usage {
	x, y := reflect.ValueOf(&a).Elem(), reflect.ValueOf(b)
	for i := range x.NumField() {
		if x.Field(i).CanInt() {
			x.Field(i).SetInt(f(x.Field(i).Int(), y.Field(i).Int()))
		}
	}
	return a
}

func largest(a, b int64) int64 { return max(a, b) }

func (s *slow) usage(text int, byText bool) tokens.Usage {
	if o, ok := s.value.(object); ok {
		for _, m := range o {
			switch m.key {
			case "usage":
				s.report(m.value, true)
			case "response", "x_groq":
				s.reports(all(m.value, "usage"), true)
			case "message":
				s.reports(all(m.value, "usage"), false)
			case "choices":
				s.reports(all(m.value, "[]", "usage"), true)
			}
		}
	}
	u := estimated
	if s.hasInput {
		u = s.u
		u.Output, u.Reasoning, u.AudioOutput, u.ImageOutput = estimated.Output, 0, 0, 0
	}
	u.Calls = s.u.Calls
	if s.hasOutput {
		u.Output = max(s.u.Output, s.total-u.Input)
		u.Reasoning, u.AudioOutput, u.ImageOutput = s.u.Reasoning, s.u.AudioOutput, s.u.ImageOutput
	} else if byText {
		u.Output = int64(text)
	}
	u = tokens.Bounded(joined(tokens.Bounded(joined(tokens.Bounded(u), s.others, add)), s.advice, add))
	u.Tier = s.tier()
	return u
}

// tier returns the tier of service: the last one that is named, or another speed than the usual one.
func (s *slow) tier() string {
	tier, speed := "", ""
	note := func(to *string, found []any) {
		for _, v := range found {
			if v, ok := v.(string); ok && len(v) <= 48 {
				*to = v
			}
		}
	}
	o, _ := s.value.(object)
	for _, m := range o {
		one := object{m}
		note(&tier, all(one, "service_tier"))
		if m.key == "response" {
			response, _ := m.value.(object)
			for _, m := range response {
				note(&tier, all(object{m}, "service_tier"))
				note(&tier, all(object{m}, "usage", "service_tier"))
			}
		}
		for _, path := range []string{"usage", "message.usage", "x_groq.usage", "choices.[].usage"} {
			path := strings.Split(path, ".")
			note(&tier, all(one, append(path, "service_tier")...))
			note(&speed, all(one, append(path, "speed")...))
		}
		note(&speed, all(one, "response", "usage", "speed"))
	}
	if speed != "" && speed != "standard" {
		return speed
	}
	return tier
}

func (s *slow) reports(found []any, ended bool) {
	for _, v := range found {
		s.report(v, ended)
	}
}

func (s *slow) report(v any, ended bool) {
	if _, ok := v.(object); !ok {
		return
	}
	in, known := inputOf(v)
	out, hasOutput := outputOf(v)
	if !ended {
		out, hasOutput = tokens.Usage{}, false
	}
	var runs, others, advice tokens.Usage
	served, advised, longest := false, false, int64(0)
	if lists := all(v, "iterations"); len(lists) > 0 {
		lists = slices.DeleteFunc(lists, func(l any) bool { _, ok := l.(list); return !ok })
		for _, e := range all(append(lists, nil)[max(0, len(lists)-1)], "[]") {
			if _, ok := e.(object); !ok {
				continue
			}
			in, _ := inputOf(e)
			out, _ := outputOf(e)
			if !ended {
				out = tokens.Usage{}
			}
			u, kind, model := tokens.Bounded(joined(in, out, add)), "", ""
			for _, k := range all(e, "type") {
				if k, ok := k.(string); ok && len(k) <= 48 {
					kind = k
				}
			}
			for _, m := range all(e, "model") {
				if m, ok := m.(string); ok && len(m) <= 48 {
					model = m
				}
			}
			switch kind {
			case "message":
				runs = tokens.Bounded(joined(runs, u, add))
			case "compaction":
				others = tokens.Bounded(joined(others, u, add))
			case "fallback_message":
				served = model != ""
			case "advisor_message":
				advice, advised = tokens.Bounded(joined(advice, u, add)), model != ""
				continue
			default:
				continue
			}
			longest = max(longest, u.Input)
		}
	}
	if in.Input == 0 && out == (tokens.Usage{}) && longest == 0 {
		return
	}
	if !served && add(runs.Input, runs.Output) > add(in.Input, out.Output) {
		in, out = runs, runs
		in.Output, in.Reasoning, in.AudioOutput, in.ImageOutput = 0, 0, 0, 0
		out = tokens.Usage{Output: out.Output, Reasoning: out.Reasoning, AudioOutput: out.AudioOutput,
			ImageOutput: out.ImageOutput}
	}
	if known && in.Input > 0 || longest > 0 {
		output := tokens.Usage{Output: s.u.Output, Reasoning: s.u.Reasoning, AudioOutput: s.u.AudioOutput,
			ImageOutput: s.u.ImageOutput, Calls: s.u.Calls}
		if !s.hasInput || in.Input > s.u.Input {
			s.u, s.hasInput = joined(in, output, largest), true
		} else if in.Input == s.u.Input {
			input := s.u
			input.Output, input.Reasoning, input.AudioOutput, input.ImageOutput = 0, 0, 0, 0
			s.u = joined(tokens.Bounded(joined(input, in, largest)), output, largest)
		}
	}
	if hasOutput || longest > 0 {
		s.u, s.hasOutput = joined(s.u, out, largest), true
	}
	s.u.Calls = max(s.u.Calls, toldAt(v, "server_tool_use.web_search_requests",
		"server_tool_use_details.web_search_requests",
		"prompt_tokens_details.web_search_requests", "num_search_queries", "num_server_side_tools_used"))
	if ended {
		s.total = max(s.total, toldAt(v, "total_tokens"))
	}
	if add(others.Input, others.Output) >= add(s.others.Input, s.others.Output) {
		s.others = others
	}
	if advised && add(advice.Input, advice.Output) >= add(s.advice.Input, s.advice.Output) {
		s.advice = advice
	}
}

// FuzzEstimate compares the estimate with what encoding/json finds in the request.
func FuzzEstimate(f *testing.F) {
	for _, body := range []string{`{}`, `{"model":"m","n":2,"max_tokens":3}`, `{"max_tokens":1,"max_tokens":2}`,
		`{"Max_Tokens":1}`, `{"n":4611686018427387904,"max_completion_tokens":3}`, `{"max_tokens":"1"}`,
		`{ "a":[{"n":1}], "max\u005ftokens" : 9 }`, `{"model":7}`, `[{}]`, "{\"max_to\u212aens\":1}", `{"n":0}`} {
		f.Add([]byte(body))
	}
	meter := tokens.MustNew(tokens.Config{})
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		call, err := meter.Estimate(tokens.ChatCompletions, body)
		if !bytes.Equal(before, body) {
			t.Error("the body has changed")
		}
		want, ok := estimateSlowly(body)
		if ok != (err == nil) {
			t.Fatalf("accepted: %v (%v), want %v", err == nil, err, ok)
		}
		if ok && call.Usage() != want {
			t.Errorf("the estimate is %+v, want %+v", call.Usage(), want)
		}
	})
}

func estimateSlowly(body []byte) (u tokens.Usage, ok bool) {
	names := []string{"model", "n", "max_tokens", "max_completion_tokens"}
	members, isObject := membersOf(body)
	if !isObject {
		return u, false
	}
	found := make(map[string]int64)
	for _, m := range members {
		i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(m.key, name) })
		if i < 0 {
			continue
		}
		_, twice := found[m.key]
		if twice || m.key != names[i] {
			return u, false
		}
		found[m.key] = -1
		switch v := m.value.(type) {
		case nil:
		case string:
			if m.key != "model" || len(v) > 200 {
				return u, false
			}
		case json.Number:
			n, isWhole := new(big.Int).SetString(v.String(), 10)
			if m.key == "model" || !isWhole || strings.HasPrefix(v.String(), "-") || m.key == "n" && n.Sign() == 0 {
				return u, false
			}
			found[m.key] = math.MaxInt64
			if n.IsInt64() {
				found[m.key] = n.Int64()
			}
		default:
			return u, false
		}
	}
	get := func(name string) int64 {
		if n, ok := found[name]; ok {
			return n
		}
		return -1
	}
	output := max(get("max_tokens"), get("max_completion_tokens"))
	if output <= 0 {
		output = 4096
	}
	all := new(big.Int).Mul(big.NewInt(output), big.NewInt(max(1, get("n"))))
	u = tokens.Usage{Input: int64(len(body)+3) / 4, Output: math.MaxInt64}
	if all.IsInt64() {
		u.Output = all.Int64()
	}
	return u, true
}

type member struct {
	key   string
	value any
}

// membersOf returns the members of an object, those that are there twice, too.
func membersOf(body []byte) (all []member, isObject bool) {
	if !json.Valid(body) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, false
		}
		m := member{key: key.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, false
		}
		all = append(all, m)
	}
	return all, true
}
