// Package weir is the table of contents of a rate limiter for HTTP servers. It has no code.
// Import these packages:
//
//   - [github.com/weir-go/weir/nethttp]: middleware for net/http. Start here,
//     with its MustPerAddress.
//   - [github.com/weir-go/weir/chimw], [github.com/weir-go/weir/ginmw],
//     [github.com/weir-go/weir/echomw], [github.com/weir-go/weir/echo5mw],
//     [github.com/weir-go/weir/fibermw]: the same for chi, gin, echo 4, echo 5 and Fiber 3.
//   - [github.com/weir-go/weir/grpcmw], [github.com/weir-go/weir/connectmw],
//     [github.com/weir-go/weir/connect2mw]: the same for calls of gRPC and of Connect v1 and v2, and
//     for their clients.
//   - [github.com/weir-go/weir/mcpmw]: the same for servers of the Model Context Protocol.
//   - [github.com/weir-go/weir/gateway]: checks of proxies, such as nginx and Envoy, in front
//     of programs in any language. The command "weir serve" is the whole service.
//   - [github.com/weir-go/weir/limits]: limits, as values and as text, and decisions.
//   - [github.com/weir-go/weir/core]: rules, the limiter and outcomes. It knows nothing of
//     HTTP.
//   - [github.com/weir-go/weir/memory]: the backend in this process, and limiters of keys
//     without rules.
//   - [github.com/weir-go/weir/keyfuncs]: functions that say who is counted: client addresses
//     behind proxies, API keys, users, routes, and combinations;
//     [github.com/weir-go/weir/keyfuncs/agents]: crawlers and other agents that sign their requests.
//   - [github.com/weir-go/weir/headers]: response header fields, current and old.
//   - [github.com/weir-go/weir/redisbackend]: the same limits in Redis, shared by
//     many servers.
//   - [github.com/weir-go/weir/policy]: rules in a file, which may change while the
//     program runs.
//   - [github.com/weir-go/weir/remote]: protects requests from a slow or dead backend: a time
//     budget, a circuit breaker, remembered denials.
//   - [github.com/weir-go/weir/shed]: sheds load when a service has too much of it.
//   - [github.com/weir-go/weir/tokens]: budgets of language models, in tokens and money.
//   - [github.com/weir-go/weir/client]: outgoing requests that keep to the limits of
//     servers.
//   - [github.com/weir-go/weir/stats]: counters of what limiters do, for metrics,
//     logs and the operator.
//   - [github.com/weir-go/weir/admin]: a page for the people who operate a service.
//   - [github.com/weir-go/weir/limits/backends]: the interfaces of a backend, for a store of
//     your own; [github.com/weir-go/weir/limits/limitstest]: the tests that it passes.
//
// limits, memory, core, keyfuncs, headers, nethttp, remote, shed, tokens, client, stats and admin
// import the standard library alone, and each adapter its framework.
//
// Words of this documentation:
//
//   - A limit is an algorithm with its rate and burst.
//   - A rule is a named limit with the functions that find key and cost of a
//     request.
//   - A key is who is counted; a cost is how many units a request takes.
//   - A backend keeps the state and takes units, all or nothing.
//   - A limiter decides a request against its rules: each answers with a
//     decision, and together they are the outcome, allowed or denied.
//
// The directory examples has programs to start from.
package weir
