//go:build js && wasm

package main

import (
	"syscall/js"

	"github.com/weir-go/weir/cmd/weir/playground/lab"
)

var replaying *lab.Replay

// replay(name) starts to replay a log through the panels. It returns an error text, or "".
func replay(_ js.Value, args []js.Value) any {
	stopReplay(js.Value{}, nil)
	var err error
	if replaying, err = running.Replay(args[0].String()); err != nil {
		return err.Error()
	}
	return ""
}

// feed(bytes) adds to the log. It returns whether the replay needs more.
func feed(_ js.Value, args []js.Value) any {
	text := make([]byte, args[0].Length())
	js.CopyBytesToGo(text, args[0])
	_, err := replaying.Write(text)
	return err == nil
}

// stopReplay() ends a running replay.
func stopReplay(js.Value, []js.Value) any {
	if replaying != nil {
		replaying.Stop()
		replaying = nil
	}
	return nil
}

// replayed() ends the log and returns the result or an error.
func replayed(js.Value, []js.Value) any {
	r, err := replaying.Result()
	replaying = nil
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	var rows []any
	for _, p := range r.Rows {
		rows = append(rows, map[string]any{
			"panel": p.Panel, "denied": p.Denied, "deniedShare": p.DeniedShare,
			"over":    numbers(p.Over),
			"delayed": p.Delayed, "clients": p.Clients, "clientsShare": p.ClientsShare,
			"wait": p.Wait, "first": p.First, "missing": list(p.Missing),
		})
	}
	return map[string]any{"headline": r.Headline, "reading": r.Reading, "requests": r.Requests,
		"over": numbers(r.Over), "rows": rows, "notes": list(r.Notes), "error": ""}
}

func list(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

func numbers(list []int64) []any {
	all := make([]any, len(list))
	for i, n := range list {
		all[i] = n
	}
	return all
}
