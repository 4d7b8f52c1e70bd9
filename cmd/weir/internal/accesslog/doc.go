// Package accesslog reads access logs of web servers and load balancers.
//
// A [Log] reads one file line by line, and every line becomes an [Entry]: when the request
// arrived, from which address, and what it asked for. The format is found by trying each on
// the first lines. A line that cannot be read is counted and skipped, so that no line ends
// the reading.
package accesslog
