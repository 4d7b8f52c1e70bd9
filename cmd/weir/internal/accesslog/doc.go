// Package accesslog reads access logs of web servers and load balancers.
//
// A [Log] reads one file line by line, and every line becomes an [Entry]: when the request
// arrived, from which address, and what it asked for. Most of the first lines decide about the
// format. A line that cannot be read, or that is no request, is counted and skipped, so no line
// ends the reading and none decides about others.
package accesslog
