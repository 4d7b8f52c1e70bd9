// Package report prints the result of a simulation as text, as JSON, or as a page in a single file.
package report
