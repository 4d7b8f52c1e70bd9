// Package greetconnect has the handlers and the client of a greeting service.
package greetconnect
