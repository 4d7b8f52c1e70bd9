// Package mcpmw limits the calls of a server of the Model Context Protocol (MCP) that is written
// with the official Go SDK.
//
//	go get github.com/weir-go/weir/mcpmw github.com/modelcontextprotocol/go-sdk@latest
//
// Without @latest a new program gets the oldest release that works, which is all that weir asks for.
//
// A [Limiter] is receiving middleware. It decides each call against its rules before its handler
// runs:
//
//	limiter := mcpmw.MustNew(mcpmw.Config{
//		Rules: []mcpmw.Rule{{
//			Name:  "per-user",
//			Limit: limits.SlidingWindow(limits.PerMinute(60)),
//			Key:   keyfuncs.First(mcpmw.User, keyfuncs.Address(mcpmw.Peer)),
//		}, {
//			Name:  "renders",
//			Limit: limits.Concurrent(2),
//			Key:   core.When(mcpmw.CallsTool("render"), mcpmw.User),
//		}},
//	})
//	server.AddReceivingMiddleware(limiter.Middleware())
//	handler := mcp.NewStreamableHTTPHandler(getServer, nil)
//	http.Handle("/mcp", flood.Handler(mcpmw.WithRequest(handler))) // flood is of package nethttp
//
// Rules are those of package core, on a [Call]. Key functions of package keyfuncs apply by [Lift].
// Over stdio a server has one client, so a rule needs no more than keyfuncs.Constant.
//
// # Messages that count
//
// Every JSON-RPC request counts, "initialize" and "tools/list" as well as "tools/call", if a rule
// applies to it: see [CallsTool]. A client whose "initialize" is denied cannot connect.
//
// "server/discover", the first request since the protocol of 2026-07-28, passes uncounted unless
// [Config].CountProbes is set: many clients take a server that denies it for an old one.
//
// Pings and notifications pass, and no rule counts them. A denied ping would make the client close
// its session. A denied notification would have no answer, and the cancellation of a call ends
// work. The SDK answers pings itself. It calls the program for notifications of progress and of
// roots only if the program sets a handler for them.
//
// The SDK refuses messages that it cannot decode, unknown methods, and calls with the id of a call
// that runs. The limiter does not see them. Over HTTP, a limiter of package nethttp around the
// handler counts them. Give it a higher limit than this one, so that it denies only floods, and the
// Denied [HTTPDenied], since a 429 ends the session of some clients.
//
// # Answers
//
// A denied call ends with a JSON-RPC error of the code [CodeDenied]. A call that could not be
// decided, or that only rules with DenyAs503 denied, ends with [CodeUnavailable]. The message says
// in words when to try again. The data is an object:
//
//	{
//		"retryAfter": 30,                     // seconds, rounded up; missing if no wait helps
//		"violatedPolicies": ["per-user"],     // the rules that denied
//		"ratelimit": "\"per-user\";r=0;t=30"  // and the other fields of package headers
//	}
//
// [Config].Denied may change the error, or answer with a result: see [ToolResult]. The fields of
// package headers are in _meta of the results of allowed calls.
//
// # The end of a call
//
// A call ends when its handler returns. It holds units of concurrency limits until then, even if
// the client has cancelled it, has closed the stream of its events, or has left. Handlers should
// return when their context ends. The SDK ends the context of a call that its client cancels. It
// does not end the context of a call whose client has left without a word.
package mcpmw
