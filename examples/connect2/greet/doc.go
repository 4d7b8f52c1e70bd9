// Package greet has the messages of a greeting service. protoc generates it from greet.proto.
package greet
