// Package greetconnect has the handlers of a service that greets, and its client.
package greetconnect
