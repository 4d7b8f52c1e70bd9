package mcpmw

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-go/weir/core"
)

// The codes of the JSON-RPC errors of a limiter are the statuses of HTTP. The protocol of
// 2026-07-28 reserves -32099 to -32020 for itself, and JSON-RPC the rest of -32768 to -32000.
const (
	CodeDenied      = 429 // a rule denied the call
	CodeUnavailable = 503 // the call could not be decided, or only rules with DenyAs503 denied it
)

// CodeProposed is the code of a denial that SEP-3304 proposes for MCP. It is not decided: see
// [DeniedAs].
const CodeProposed = -32023

// DeniedAs returns a function for [Config].Denied that gives denials another code than
// [CodeDenied], such as [CodeProposed]. The data and the errors of [CodeUnavailable] stay as they
// are.
func DeniedAs(code int64) func(*Call, core.Outcome, *jsonrpc.Error) (mcp.Result, error) {
	return func(_ *Call, _ core.Outcome, err *jsonrpc.Error) (mcp.Result, error) {
		err.Code = codeAs(err.Code, code)
		return nil, err
	}
}

// codeAs returns the code of an error whose denials have the code denied.
func codeAs(code, denied int64) int64 {
	if code == CodeDenied {
		return denied
	}
	return code
}

// The members of data that are no fields of package headers.
const (
	retryAfter       = "retryAfter"
	violatedPolicies = "violatedPolicies"
)

// refusal returns the error for an HTTP status, 429 or 503.
func refusal(status int, message string, data map[string]any) *jsonrpc.Error {
	e := &jsonrpc.Error{Code: CodeUnavailable, Message: message}
	if status == http.StatusTooManyRequests {
		e.Code = CodeDenied
	}
	if len(data) > 0 {
		e.Data, _ = json.Marshal(data) // strings and numbers cannot fail
	}
	return e
}

// dataOf returns the data of an error: the fields, the wait if a wait helps, and the rules that
// denied.
func dataOf(fields http.Header, wait time.Duration, violated []string) map[string]any {
	data := make(map[string]any, len(fields)+2)
	addFields(data, fields)
	if wait > 0 {
		data[retryAfter] = int64((wait + time.Second - 1) / time.Second)
	}
	if len(violated) > 0 {
		data[violatedPolicies] = violated
	}
	return data
}

func addFields(data map[string]any, fields http.Header) {
	for name, values := range fields {
		// Retry-After is retryAfter, and headers.Delete leaves fields without lines.
		if name != "Retry-After" && len(values) > 0 {
			data[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
}

// ToolResult is a function for [Config].Denied. It answers "tools/call" with a tool result that has
// IsError set, since some hosts show only results to the model. The text has the message of err and
// the names of the rules, and _meta has the data of err. Other methods get err.
func ToolResult(c *Call, _ core.Outcome, err *jsonrpc.Error) (mcp.Result, error) {
	if _, ok := c.tool(); !ok {
		return nil, err
	}
	var data struct {
		Violated []string `json:"violatedPolicies"`
	}
	var meta map[string]any
	_ = errors.Join(json.Unmarshal(err.Data, &data), json.Unmarshal(err.Data, &meta)) // may be nil
	text := err.Message
	if len(data.Violated) > 0 {
		text += " Limits reached: " + strings.Join(data.Violated, ", ") + "."
	}
	return &mcp.CallToolResult{
		Meta: meta, Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: true,
	}, nil
}

// withFields returns result with fields in its _meta. It copies result, which the program may share
// among calls. A result without _meta is returned as it is. SetMeta would panic for such a result.
func withFields(result mcp.Result, fields http.Header) mcp.Result {
	v := reflect.ValueOf(result)
	if len(fields) == 0 || v.Kind() != reflect.Pointer || v.IsNil() {
		return result
	}
	field, ok := v.Type().Elem().FieldByName("Meta")
	if !ok || field.Type != reflect.TypeFor[mcp.Meta]() {
		return result
	}
	copied := reflect.New(v.Type().Elem())
	copied.Elem().Set(v.Elem())
	meta, err := copied.Elem().FieldByIndexErr(field.Index)
	if err != nil {
		return result
	}
	all := maps.Clone(meta.Interface().(mcp.Meta))
	if all == nil {
		all = make(mcp.Meta, len(fields))
	}
	addFields(all, fields)
	meta.Set(reflect.ValueOf(all))
	return copied.Interface().(mcp.Result)
}

// statusOf returns the HTTP status that is nearest to the answer of a handler.
func statusOf(result mcp.Result, err error) int {
	if err == nil {
		if tool, ok := result.(*mcp.CallToolResult); ok && tool != nil && tool.IsError {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return statusOfCode(e.Code)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return 499
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// codeResourceNotFound is mcp.CodeResourceNotFound before the protocol of 2026-07-28, which has
// jsonrpc.CodeInvalidParams instead.
const codeResourceNotFound = -32002

func statusOfCode(code int64) int {
	switch code {
	case jsonrpc.CodeInvalidParams, jsonrpc.CodeInvalidRequest, jsonrpc.CodeParseError:
		return http.StatusBadRequest
	case jsonrpc.CodeMethodNotFound, codeResourceNotFound:
		return http.StatusNotFound
	case CodeDenied, CodeProposed:
		return http.StatusTooManyRequests
	case CodeUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
