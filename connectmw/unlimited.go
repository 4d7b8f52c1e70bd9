package connectmw

import (
	"context"
	"net/http"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Unlimited returns the procedures of the services in files to which no rule applies that is enforced, in order.
// No error says that the name of a procedure is misspelt in a condition, or that a new procedure has no rule: log
// the result at the start of the server, or give a limit to all that is left by [core.Otherwise]. A file
// is a variable that protoc-gen-go generates:
//
//	if procedures := limiter.Unlimited(greet.File_greet_greet_proto); len(procedures) > 0 {
//		slog.Warn("no rule limits these procedures", "procedures", procedures)
//	}
//
// It calls the Keys of rules with calls that have a Spec, and a Message unless that is a stream, but neither
// header nor peer. A rule whose Key fails without them applies. It asks no backend.
func (l *Limiter) Unlimited(files ...protoreflect.FileDescriptor) (procedures []string) {
	for _, file := range files {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				c := &Call{Context: context.Background(), Spec: specOf(service.Methods().Get(j)), Header: make(http.Header)}
				if c.Spec.StreamType == connect.StreamTypeUnary {
					c.Message = struct{}{} // it has not arrived
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

// specOf returns the part of a Spec that a server with this method has.
func specOf(method protoreflect.MethodDescriptor) connect.Spec {
	spec := connect.Spec{Schema: method, Procedure: "/" + string(method.Parent().FullName()) + "/" + string(method.Name())}
	if method.IsStreamingClient() {
		spec.StreamType |= connect.StreamTypeClient
	}
	if method.IsStreamingServer() {
		spec.StreamType |= connect.StreamTypeServer
	}
	return spec
}
