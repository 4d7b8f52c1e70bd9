//go:build js && wasm

// Command wasm runs package lab in a page: it sets the global object weir, whose methods the page
// calls. The generator beside it builds it.
package main

import (
	"strings"
	"syscall/js"

	"github.com/weir-go/weir/cmd/weir/playground/lab"
)

var (
	running *lab.Lab
	frame   []byte
	shown   lab.Answer // the answer that the page shows
	shownOf int        // its panel
)

func main() {
	js.Global().Set("weir", js.ValueOf(map[string]any{
		"setup":  js.FuncOf(setup),
		"frame":  js.FuncOf(nextFrame),
		"choose": js.FuncOf(choose),
		"replay": js.FuncOf(replay), "feed": js.FuncOf(feed), "replayed": js.FuncOf(replayed),
		"stopReplay": js.FuncOf(stopReplay),
	}))
	select {} // from now on, only the methods run
}

// setup(fields) restarts the lab and returns a description of the panels. Fields are the fields of
// lab.Setup by name, with one panel per line.
func setup(_ js.Value, args []js.Value) any {
	field := func(name string) string {
		if v := args[0].Get(name); v.Type() == js.TypeString {
			return v.String()
		}
		return ""
	}
	s := lab.Setup{
		Limit: field("limit"), Traffic: field("traffic"), Rate: field("rate"), Size: field("size"),
		Script: field("script"),
		Cost:   field("cost"), Values: field("values"), Lasts: field("lasts"), Retry: field("retry"),
		Span: field("span"), Seed: field("seed"),
	}
	if panels := field("panels"); panels != "" {
		s.Panels = strings.Split(panels, "\n")
	}
	var mistakes lab.Mistakes
	running, mistakes = lab.New(s)
	shown = lab.Answer{}
	wrong := make(map[string]any)
	for field, text := range mistakes {
		wrong[field] = text
	}
	var panels []any
	for _, p := range running.Panels() {
		var rules []any
		for _, r := range p.Rules {
			rules = append(rules, map[string]any{
				"name": r.Name, "limit": r.Limit, "picture": r.Picture, "bans": r.Bans,
			})
		}
		panels = append(panels, map[string]any{"text": p.Text, "rules": rules})
	}
	return map[string]any{
		"span": float64(running.Span()), "panels": panels, "mistakes": wrong,
		"frameSize": lab.FrameSize,
	}
}

// nextFrame(by, sends, cost, selected, number, buffer) advances the clock by by microseconds. If by
// is negative, it advances to a microsecond before the Retry-After of the selected panel. Then it
// sends requests and writes a frame. It returns the answer for the page to show, or null if the
// page already shows it.
func nextFrame(_ js.Value, args []js.Value) any {
	selected := args[3].Int()
	if by := args[0].Float(); by < 0 {
		running.Approach(selected)
	} else {
		running.Advance(int64(by))
	}
	if n := args[1].Int(); n > 0 {
		running.Send(int64(n), int64(args[2].Float()))
	}
	frame = running.AppendFrame(frame[:0], selected)
	js.CopyBytesToJS(args[5], frame)
	a, ok := running.Answer(selected, int64(args[4].Int()))
	if !ok || selected == shownOf && a.Number == shown.Number && a.Proof == shown.Proof &&
		a.Last == shown.Last && len(a.Rules) == len(shown.Rules) && a.Rules[0] == shown.Rules[0] {
		return nil
	}
	shown, shownOf = a, selected
	var fields, rules []any
	for _, f := range a.Fields {
		fields = append(fields, map[string]any{"name": f.Name, "value": f.Value})
	}
	for _, r := range a.Rules {
		rules = append(rules, map[string]any{
			"name": r.Name, "limit": r.Limit, "allowed": r.Allowed, "remaining": r.Remaining,
			"retryAfter": r.RetryAfter,
			"resetAfter": r.ResetAfter,
		})
	}
	return map[string]any{
		"number": a.Number, "first": a.First, "last": a.Last, "at": a.At, "cost": a.Cost,
		"attempt": a.Attempt,
		"verdict": a.Verdict,
		"status":  a.Status, "delay": a.Delay, "fields": fields, "rules": rules, "proof": a.Proof,
	}
}

// choose(algorithm, rate) returns a limit as text, Go and YAML.
func choose(_ js.Value, args []js.Value) any {
	c := lab.Choose(args[0].String(), args[1].String())
	return map[string]any{
		"asks": c.Asks, "limit": c.Limit, "go": c.Go, "yaml": c.YAML, "error": c.Error,
	}
}
