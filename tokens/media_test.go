package tokens_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/tokens"
)

// data stands for the base64 of a file. Bodies of tests have it as DATA.
var data = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0, 250, 255, 1, 9}, 3000))

// media are members of bodies that are no text, by API, and what they count.
var media = []struct {
	api  tokens.API
	part string
	want int64
}{
	{tokens.ChatCompletions, `{"type":"image_url","image_url":{"url":"data:image/png;base64,DATA","detail":"low"}}`, 5000},
	{tokens.ChatCompletions, `{"type":"image_url","image_url":{"url":"data:image\/jpeg;base64,D\/ATA"}}`, 5000},
	{tokens.ChatCompletions, `{"type":"image_url","image_url":{"url":"DATA"}}`, 5000},
	{tokens.ChatCompletions, `{"type":"input_audio","input_audio":{"data":"DATA","format":"wav"}}`, 10_000},
	{tokens.ChatCompletions, `{"type":"input_audio","input_audio":{"format":"mp3","data":"DATA"}}`, 10_000},
	{tokens.ChatCompletions, `{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,DATA"}}`,
		25_000},
	{tokens.ChatCompletions, `{"type":"file","file":{"filename":"a.pdf","file_data":"DATA"}}`, 25_000},
	{tokens.ChatCompletions, `{"type":"video_url","video_url":{"url":"data:video/mp4;base64,DATA"}}`, 80_000},
	{tokens.ChatCompletions, `{"type":"audio_url","audio_url":{"url":"data:audio/ogg;codecs=opus;base64,DATA"}}`, 10_000},
	{tokens.Responses, `{"type":"input_image","image_url":"data:image/webp;base64,DATA"}`, 5000},
	{tokens.Responses, `{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,DATA"}`, 25_000},
	{tokens.Responses, `{"type":"image_generation_call","result":"DATA"}`, 5000},
	{tokens.Responses, `{"tools":[{"type":"image_generation","input_image_mask":{"image_url":` +
		`"data:image/png;base64,DATA"}},{"type":"function","parameters":{"url":"data:image/png;base64,A"}}]}`, 5000},
	{tokens.Responses, `{"tools":[{"skills":[{"source":{"type":"base64","media_type":"application/zip","data":"DATA"` +
		`}}]}]}`, 25_000},
	{tokens.Responses, `{"type":"computer_call_output","output":{"type":"computer_screenshot","image_url":` +
		`"data:image/png;base64,DATA"}}`, 5000},
	{tokens.Messages, `{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"DATA"}}`, 5000},
	{tokens.Messages, `{"type":"document","source":{"data":"DATA","media_type":"application/pdf","type":"base64"}}`,
		25_000},
	{tokens.Messages, `{"type":"tool_result","content":[{"type":"image","source":{"type":"base64","media_type":` +
		`"image/png","data":"DATA"}},{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"DATA"}}]}`,
		10_000},
	{tokens.Messages, `{"media_type":"image/png","data":"DATA","nested":{"url":"data:image/png;base64,DATA"}}`, 10_000},

	{tokens.ChatCompletions, `{"type":"image_url","image_url":{"url":"data:;base64,DATA"}}`, 5000},
	{tokens.Messages, `{"type":"document",` +
		`"source":{"type":"base64","media_type":"application\/vnd.ms-excel","data":"DATA"}}`,
		25_000},

	// These are text.
	{tokens.ChatCompletions, `{"type":"file","file":{"file_data":"data:application/json;base64,DATA"}}`, 0},
	{tokens.ChatCompletions, `{"type":"file","file":{"file_data":"data:;base64,DATA"}}`, 0},
	{tokens.Responses, `{"type":"input_file","file_data":"data:application/x-ndjson;charset=utf-8;base64,DATA"}`, 0},
	{tokens.Responses, `{"type":"input_file","file_data":"data:application\/ld+json;base64,DATA"}`, 0},
	{tokens.Responses, `{"type":"input_file","file_data":"data:t\u0065xt/plain;base64,DATA"}`, 0},
	{tokens.ChatCompletions, `{"chat_template_kwargs":{"url":"data:image/png;base64,DATA"}}`, 0},
	{tokens.Messages, `{"type":"document","source":{"type":"t\u0065xt","media_type":"application/pdf","data":"DATA"}}`, 0},
	{tokens.Messages, `{"type":"document","source":{"type":"base64","media_type":"text\u002fplain","data":"DATA"}}`, 0},
	{tokens.Messages, `{"tools":[{"input_examples":[{"url":"data:image/png;base64,DATA"}]}]}`, 0},
	{tokens.Messages, `{"tools":[{"input_sch\u0065ma":{"url":"data:image/png;base64,DATA"}}]}`, 0},
	{tokens.ChatCompletions, `{"function":{"p\u0061rameters":{"url":"data:image/png;base64,DATA"}}}`, 0},
	{tokens.ChatCompletions, `{"type":"text","text":"data:image/png;base64,DATA"}`, 0},
	{tokens.ChatCompletions, `{"type":"image_url","image_url":{"url":"data:image/png;base64,DATA and more"}}`, 0},
	{tokens.ChatCompletions, `{"type":"image_url","image_url":{"url":"data:text/plain;base64,DATA"}}`, 0},
	{tokens.ChatCompletions, `{"type":"image_url","image_url":{"url":"data:image/png,DATA"}}`, 0},
	{tokens.ChatCompletions, `{"data":"DATA","format":"wav"}`, 0},
	{tokens.ChatCompletions, `{"tool_calls":[{"function":{"arguments":"{\"url\":\"data:image/png;base64,DATA\"}"}}]}`, 0},
	{tokens.Responses, `{"type":"reasoning","encrypted_content":"DATA"}`, 0},
	{tokens.Responses, `{"type":"function_call_output","output":{"result":"DATA"}}`, 0},
	{tokens.Messages, `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"DATA"}}`, 0},
	{tokens.Messages, `{"type":"redacted_thinking","data":"DATA"}`, 0},
	{tokens.Messages, `{"type":"tool_use","input":{"media_type":"image/png","data":"DATA"}}`, 0},
	{tokens.Messages, `{"type":"tool_use","input":{"url":"data:image/png;base64,DATA"},"id":"1"}`, 0},
}

// bodyWith returns a request with a part in the place where the API has it.
func bodyWith(api tokens.API, part string) string {
	list := "messages"
	if api == tokens.Responses {
		list = "input"
	}
	return fmt.Sprintf(`{"model":"m", %q : [ {"role":"user","content":[{"type":"text","text":"\"What\" is it?\\"}, `+
		`%s ] } ] }`, list, strings.ReplaceAll(strings.ReplaceAll(part, "D\\/ATA", data[:40]+`\/`+data[40:]), "DATA", data))
}

func TestBytesThatAreNoTextCountByTheirKind(t *testing.T) {
	meter := tokens.MustNew(tokens.Config{Output: 1})
	exact := tokens.MustNew(tokens.Config{Output: 1, Count: func(body []byte) int64 {
		if !json.Valid(body) {
			t.Errorf("the body to count is no JSON: %.200q", body)
		}
		return int64(len(body))
	}})
	for _, m := range media {
		body := bodyWith(m.api, m.part)
		for name, meter := range map[string]*tokens.Meter{"four bytes a token": meter, "a byte a token": exact} {
			text := int64(len(body))
			if m.want > 0 {
				text -= int64(strings.Count(body, data[41:]) * len(data)) // and the beginning of a data URL
			}
			most := text
			if name == "four bytes a token" {
				most = (text + 3) / 4
			}
			c, err := meter.Estimate(m.api, []byte(body))
			if err != nil {
				t.Fatalf("%s: %v", m.part, err)
			}
			got := c.Usage().Input - m.want
			if got > most || got < most-60 {
				t.Errorf("%s, %v %s: %d tokens beside the media, want at most %d", name, m.api, m.part, got, most)
			}
		}
	}
}

func TestAProgramCountsMediaItself(t *testing.T) {
	var seen []string
	meter := tokens.MustNew(tokens.Config{Media: func(mediaType string, data []byte) int64 {
		seen = append(seen, fmt.Sprintf("%s %s", mediaType, data))
		if mediaType == "audio/wav" {
			return -1
		}
		return 7
	}})
	c, err := meter.Estimate(tokens.ChatCompletions, []byte(`{"messages":[{"content":[{"image_url":`+
		`{"url":"data:image\/png;base64,AA=="}},{"input_audio":{"data":"BBBB","format":"wav"}},`+
		`{"file":{"file_data":"CCCC"}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := "image/png AA==,audio/wav BBBB, CCCC"; strings.Join(seen, ",") != want {
		t.Errorf("the program saw %q, want %q", seen, want)
	}
	if got := c.Usage().Input; got < 10_014 || got > 10_060 {
		t.Errorf("the input is %d, want 10,014 and the text", got)
	}
}

// A PDF of 1.9 MB was half a million tokens.
func TestAFileFitsIntoALimitOfAHundredThousand(t *testing.T) {
	pdf := base64.StdEncoding.EncodeToString(make([]byte, 1_900_000))
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{
		tokens.ByCount(nethttp.Rule{Name: "minute", Key: everyone, Limit: limits.SlidingWindow(limits.PerMinute(100_000))}),
	}})
	for _, count := range []func([]byte) int64{nil, func(body []byte) int64 { return int64(len(body)) }} {
		meter := tokens.MustNew(tokens.Config{Count: count})
		handler := meter.Handler(tokens.Messages, limiter.Handler, answering(plain,
			`{"usage":{"input_tokens":12000,"output_tokens":30}}`))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(`{"max_tokens":1000,"messages":[{"role":`+
			`"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"`+
			pdf+`"}}]}]}`)))
		if w.Code != http.StatusOK {
			t.Errorf("the answer is %d: %s", w.Code, w.Body)
		}
	}
}

// The media are those that a slow reader finds, and Count sees a body without them.
func TestMediaAreFoundInAnyBody(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	total := 0
	for range 5000 {
		var b strings.Builder
		writeMedia(&b, random, 0)
		checkMedia(t, []byte(b.String()), &total)
	}
	if total < 1000 {
		t.Errorf("only %d media in 5000 bodies", total)
	}
}

func FuzzMedia(f *testing.F) {
	for _, m := range media {
		f.Add([]byte(strings.ReplaceAll(bodyWith(m.api, m.part), data, "AAAA")))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		checkMedia(t, body, new(int))
	})
}

func checkMedia(t *testing.T, body []byte, total *int) {
	t.Helper()
	for _, api := range []tokens.API{tokens.ChatCompletions, tokens.Messages} {
		count, rest := int64(0), []byte(nil)
		meter := tokens.MustNew(tokens.Config{
			Count: func(body []byte) int64 { rest = bytes.Clone(body); return 0 },
			Media: func(string, []byte) int64 { count++; return 1 },
		})
		before := bytes.Clone(body)
		c, err := meter.Estimate(api, body)
		if !bytes.Equal(before, body) {
			t.Fatal("the body has changed")
		}
		if err != nil {
			continue
		}
		if bytes.Contains(body, []byte(`\u`)) { // names with escapes are none
			continue
		}
		if want := mediaSlowly(api, body); count != want || c.Usage().Input != want {
			t.Fatalf("%v: %d media, want %d in %s", api, count, want, body)
		}
		if !json.Valid(rest) {
			t.Fatalf("%s became %s", body, rest)
		}
		if got := mediaSlowly(api, rest); got > count {
			t.Fatalf("%s still has %d media", rest, got)
		}
		*total += int(count)
	}
}

// writeMedia writes a random body.
func writeMedia(b *strings.Builder, random *rand.Rand, depth int) {
	names := []string{"url", "data", "media_type", "type", "file_data", "input", "input_audio", "format", "result",
		"content", "schema", "x", "image_url", "image_url"}
	texts := []string{"AAAA", "BB==", "data:image/png;base64,CC", "image/png", "text/plain",
		"application/ld+json", "text", "wav", "data:;base64,CCCC",
		"image_generation_call", "not base64", "data:a;base64,", `a\/b`, `\\`, `\"`, "",
		strings.Repeat("DDDD", 63), strings.Repeat("EEEE", 64), strings.Repeat("F ", 200)}
	switch kind := random.IntN(8); {
	case depth == 0 || depth < 5 && kind < 3:
		b.WriteString("{ ")
		for i := range random.IntN(5) {
			if i > 0 {
				b.WriteString(" ,")
			}
			fmt.Fprintf(b, " %q :\t", names[random.IntN(len(names))])
			writeMedia(b, random, depth+1)
		}
		b.WriteString("}")
	case depth < 5 && kind == 3:
		b.WriteString("[ ")
		for i := range random.IntN(3) {
			if i > 0 {
				b.WriteString(", ")
			}
			writeMedia(b, random, depth+1)
		}
		b.WriteString("] ")
	case kind == 4:
		b.WriteString([]string{"1", "null", "true", "-2.5e3"}[random.IntN(4)])
	default:
		fmt.Fprintf(b, `"%s"`, texts[random.IntN(len(texts))])
	}
}

// mediaSlowly counts the media in a body by way of encoding/json. It decodes escapes of names, which
// the reader takes for text, so bodies with such names are left to it.
func mediaSlowly(api tokens.API, body []byte) int64 {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return countMedia(api, treeOf(d), "")
}

var addresses = []string{"image_url", "audio_url", "video_url"}

func countMedia(api tokens.API, v any, member string) (n int64) {
	if l, ok := v.(list); ok {
		for _, e := range l {
			n += countMedia(api, e, "")
		}
		return n
	}
	o, _ := v.(object)
	texts := make(map[string]string)
	for _, m := range o {
		isText := slices.Contains([]string{"parameters", "schema", "input_schema", "arguments", "metadata",
			"input_examples", "chat_template_kwargs", "documents"}, m.key)
		if isText || m.key == "input" && api == tokens.Messages {
			continue
		}
		text, isString := m.value.(string)
		switch {
		case !isString:
			n += countMedia(api, m.value, m.key)
		case slices.Contains([]string{"url", "image_url", "video_url", "audio_url", "file_url", "file_data", "data"},
			m.key) && isDataURL(text):
			mediaType, data, _ := strings.Cut(strings.TrimPrefix(text, "data:"), ";base64,")
			isAddress := slices.Contains(addresses, m.key) || m.key == "url" && slices.Contains(addresses, member)
			if (!isTextType(mediaType) || mediaType == "" && isAddress) && isBase64(data) {
				n++
			}
		case len(text) >= 256 && (slices.Contains(addresses, m.key) || m.key == "url" && slices.Contains(addresses, member)):
			if isBase64(text) {
				n++
			}
		default:
			if m.key == "mime_type" || m.key == "mimeType" {
				m.key = "media_type"
			}
			texts[m.key] = text
		}
	}
	has := func(name string) bool { _, ok := texts[name]; return ok }
	if has("data") && isBase64(texts["data"]) && texts["type"] != "text" &&
		!strings.ContainsAny(texts["type"], "\\\"/") { // which were escapes, the slash, too
		if has("media_type") {
			if !isTextType(texts["media_type"]) {
				n++
			}
		} else if has("format") && member == "input_audio" {
			n++
		}
	}
	if has("file_data") && isBase64(texts["file_data"]) {
		n++
	}
	if has("result") && texts["type"] == "image_generation_call" && isBase64(texts["result"]) {
		n++
	}
	return n
}

// isTextType reports whether a media type is that of a text.
func isTextType(mediaType string) bool {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	major, minor, _ := strings.Cut(strings.TrimSpace(mediaType), "/")
	minor = minor[strings.LastIndex(minor, "+")+1:]
	if len(minor) > 2 && strings.EqualFold(minor[:2], "x-") {
		minor = minor[2:]
	}
	return major == "" || strings.EqualFold(major, "text") || strings.ContainsAny(mediaType, "\\\"") || // were escapes
		strings.EqualFold(major, "application") && tokens.IsLanguage(minor)
}

func isDataURL(text string) bool {
	return strings.HasPrefix(text, "data:") && strings.Contains(text[:min(len(text), 100)], ";base64,")
}

func isBase64(text string) bool {
	const all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_="
	return !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(all, r) })
}
