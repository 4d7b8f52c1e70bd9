package mcpmw

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Unlimited returns, in order, the names of the tools that no enforced rule applies to. A tool
// whose name is misspelt in a condition, or a new tool without a rule, causes no error: log the
// result at the start of the server, or limit the rest by [core.Otherwise].
//
//	if names := limiter.Unlimited(search, render); len(names) > 0 {
//		slog.Warn("no rule limits these tools", "tools", names)
//	}
//
// It calls the Keys of rules with calls that have the name of the tool, but neither arguments nor
// session nor token. A rule whose Key fails without them applies. It does not call a backend.
func (l *Limiter) Unlimited(tools ...*mcp.Tool) (names []string) {
	for _, tool := range tools {
		c := &Call{
			Context: context.Background(), Method: "tools/call",
			Params: &mcp.CallToolParamsRaw{Name: tool.Name},
		}
		if !l.gate.Applies(c) {
			names = append(names, tool.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
