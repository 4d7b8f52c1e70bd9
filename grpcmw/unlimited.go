package grpcmw

import (
	"context"
	"slices"

	"google.golang.org/grpc"
)

// Unlimited returns, in order, the methods of a server that no enforced rule applies to. A method
// whose name is misspelt in a condition, or a new method without a rule, causes no error: log the
// result at the start of the server, or limit the rest by [core.Otherwise].
//
//	if methods := limiter.Unlimited(server.GetServiceInfo()); len(methods) > 0 {
//		slog.Warn("no rule limits these methods", "methods", methods)
//	}
//
// It calls the Keys of rules with calls that have a method, and a Message unless the method
// streams, but neither metadata nor peer. A rule whose Key fails without them applies. It does not
// call a backend.
func (l *Limiter) Unlimited(services map[string]grpc.ServiceInfo) (methods []string) {
	for name, service := range services {
		for _, method := range service.Methods {
			c := &Call{Context: context.Background(), FullMethod: "/" + name + "/" + method.Name}
			if !method.IsClientStream && !method.IsServerStream {
				c.Message = struct{}{} // a message that has not arrived
			}
			if !l.gate.Applies(c) {
				methods = append(methods, c.FullMethod)
			}
		}
	}
	slices.Sort(methods)
	return methods
}
