// Package greet has the messages of a service that greets. protoc has generated it from
// greet.proto.
package greet
