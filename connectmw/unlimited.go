package connectmw

import (
	"context"
	"net/http"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Unlimited returns, in order, the procedures of the services in files that no enforced rule
// applies to. A procedure whose name is misspelt in a condition, or a new procedure without a rule,
// causes no error: log the result at the start of the server, or limit the rest by
// [core.Otherwise]. A file is a variable that protoc-gen-go generates:
//
//	if procedures := limiter.Unlimited(greet.File_greet_greet_proto); len(procedures) > 0 {
//		slog.Warn("no rule limits these procedures", "procedures", procedures)
//	}
//
// It calls the Keys of rules with calls that have a Spec, and a Message unless the procedure
// streams, but neither header nor peer. A rule whose Key fails without them applies. It does not
// call a backend.
func (l *Limiter) Unlimited(files ...protoreflect.FileDescriptor) (procedures []string) {
	for _, file := range files {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				c := &Call{
					Context: context.Background(), Spec: specOf(service.Methods().Get(j)),
					Header: make(http.Header),
				}
				if c.Spec.StreamType == connect.StreamTypeUnary {
					c.Message = struct{}{} // a message that has not arrived
				}
				if !l.gate.Applies(c) {
					procedures = append(procedures, c.Spec.Procedure)
				}
			}
		}
	}
	slices.Sort(procedures)
	return slices.Compact(procedures)
}

// specOf returns the Spec of a method on a server.
func specOf(method protoreflect.MethodDescriptor) connect.Spec {
	spec := connect.Spec{
		Schema: method, Procedure: "/" + string(method.Parent().FullName()) + "/" +
			string(method.Name()),
	}
	if method.IsStreamingClient() {
		spec.StreamType |= connect.StreamTypeClient
	}
	if method.IsStreamingServer() {
		spec.StreamType |= connect.StreamTypeServer
	}
	return spec
}
