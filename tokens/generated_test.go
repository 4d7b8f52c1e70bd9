package tokens_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weir-go/weir/tokens"
)

// Names that count are where they do not count, too.
func TestUsagesCountWhereTheyBelong(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	known := 0
	for range 6_000 {
		var b strings.Builder
		write(&b, random, 0, "")
		text := b.String()
		if !json.Valid([]byte(text)) {
			t.Fatalf("this is no JSON: %s", text)
		}
		c := call(t, tokens.Config{CountText: true}, tokens.ChatCompletions)
		c.Answer(200, header(stream))
		for _, piece := range cut([]byte("data: "+text+"\n\n"), random.Uint64()) {
			c.Write(piece)
		}
		want := readSlowly([]byte(text), true)
		if c.Usage() != want {
			t.Fatalf("%s\nis read as %+v, want %+v", text, c.Usage(), want)
		}
		if want.Input != estimated.Input && want.Output > 0 {
			known++
		}
	}
	if known < 100 {
		t.Errorf("only %d of 6,000 values have a usage", known)
	}
}

// names are the members that a container is likely to have.
var names = map[string][]string{
	"": {"usage", "usage", "usage", "usage", "message", "response", "choices", "delta", "x", "x_groq",
		"service_tier"},
	"message":  {"usage"},
	"response": {"usage"},
	"choices":  {"delta", "usage", "x"},
	"delta":    {"content", "type", "delta"},
	"x_groq":   {"usage"},
	"usage": append([]string{"prompt_tokens_details", "output_tokens_details", "x", "iterations", "iterations",
		"cache_creation", "server_tool_use", "service_tier", "speed"}, numbers...),
	"iterations":            {"entry"},
	"entry":                 append([]string{"type", "type", "type", "model", "prompt_tokens_details"}, numbers...),
	"cache_creation":        {"ephemeral_1h_input_tokens"},
	"server_tool_use":       {"web_search_requests"},
	"prompt_tokens_details": numbers,
	"output_tokens_details": numbers,
}

var numbers = []string{"prompt_tokens", "input_tokens", "output_tokens", "completion_tokens", "cached_tokens",
	"reasoning_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "cache_write_tokens", "audio_tokens",
	"image_tokens", "total_tokens", "num_search_queries", "prompt_cache_hit_tokens", "citation_tokens"}

// write writes a random value of a member.
func write(b *strings.Builder, random *rand.Rand, depth int, of string) {
	space := []string{"", "", " ", "\t"}[random.IntN(4)]
	likely, isLikely := names[of]
	switch kind := random.IntN(10); {
	case depth == 0 || depth < 8 && (isLikely && kind < 7 && of != "choices" && of != "iterations" || kind == 0):
		b.WriteString("{" + space)
		for i := range random.IntN(6) {
			if i > 0 {
				b.WriteString(space + ",")
			}
			if !isLikely || random.IntN(4) == 0 {
				likely = names[[]string{"", "usage"}[random.IntN(2)]]
			}
			name := likely[random.IntN(len(likely))]
			fmt.Fprintf(b, "%s%q%s:%s", space, name, space, space)
			write(b, random, depth+1, name)
		}
		b.WriteString("}" + space)
	case of == "type" && kind < 9:
		kinds := []string{"message", "compaction", "advisor_message", "fallback_message", "other"}
		fmt.Fprintf(b, "%q", kinds[random.IntN(len(kinds))])
	case of == "model" || of == "service_tier" || of == "speed":
		fmt.Fprintf(b, "%q", []string{"standard", "fast", "flex", ""}[random.IntN(4)])
	case depth < 8 && of == "iterations" && kind < 8:
		b.WriteString("[")
		for i := range random.IntN(4) {
			if i > 0 {
				b.WriteString(",")
			}
			write(b, random, depth+1, "entry")
		}
		b.WriteString("]")
	case depth < 6 && (of == "choices" && kind < 8 || kind == 1):
		b.WriteString("[")
		for i := range random.IntN(4) {
			if i > 0 {
				b.WriteString("," + space)
			}
			write(b, random, depth+1, []string{"delta", "message", "usage"}[random.IntN(3)])
		}
		b.WriteString(space + "]")
	case kind == 2:
		fmt.Fprintf(b, "%q", numbers[random.IntN(len(numbers))])
	case kind == 3:
		b.WriteString([]string{"null", "true", "-1", "1.5", "1e2", "-0", "99999999999999999999", `""`, `"7"`, "0.5",
			`"12.0"`, "3e-1", "0.0"}[random.IntN(13)])
	default:
		fmt.Fprint(b, random.IntN(1000))
	}
}
