// Package accesslog reads access logs of web servers and load balancers.
//
// A [Log] reads one file line by line, and each line becomes an [Entry]: the time, the address and
// the target of a request. The first lines determine the format by majority. A line that cannot be
// read, or is not a request, is counted and skipped: it never stops the reading or affects other
// lines.
package accesslog
