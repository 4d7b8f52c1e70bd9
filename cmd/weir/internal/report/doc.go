// Package report shows what a simulation came to: as text, as JSON, and as a page that is
// one file.
package report
