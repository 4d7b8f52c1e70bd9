package grpcmw

import (
	"context"
	"slices"

	"google.golang.org/grpc"
)

// Unlimited returns the methods of a server to which no rule applies that is enforced, in order. No error
// says that the name of a method is misspelt in a condition, or that a new method has no rule: log
// the result at the start of the server, or give a limit to all that is left by [core.Otherwise].
//
//	if methods := limiter.Unlimited(server.GetServiceInfo()); len(methods) > 0 {
//		slog.Warn("no rule limits these methods", "methods", methods)
//	}
//
// It calls the Keys of rules with calls that have a method, and a Message unless that is a stream, but neither
// metadata nor peer. A rule whose Key fails without them applies. It asks no backend.
func (l *Limiter) Unlimited(services map[string]grpc.ServiceInfo) (methods []string) {
	for name, service := range services {
		for _, method := range service.Methods {
			c := &Call{Context: context.Background(), FullMethod: "/" + name + "/" + method.Name}
			if !method.IsClientStream && !method.IsServerStream {
				c.Message = struct{}{} // it has not arrived
			}
			if !l.gate.Applies(c) {
				methods = append(methods, c.FullMethod)
			}
		}
	}
	slices.Sort(methods)
	return methods
}
