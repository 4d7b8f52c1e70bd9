// Package line is the way from a process to its Redis servers. It knows jobs, and not what they
// mean: a [Job] is what one script is asked about some keys of one server, and its [Owner] reads
// the numbers of the reply.
//
// [Lines] has a [Line] for each server of a client. A line arranges three things. A [Queue] orders
// the jobs that wait. Workers make calls, each of which sends several jobs as batches of scripts.
// A health judges the server by how its calls end, so that a dead server costs no time.
//
// All batches of all lines are sent by run in batches.go, through the one caller that the lines of
// a client share.
//
// A [ScriptCall] runs one script, and believes the reply only if it is that of its call. An
// [Errand] is a job about one key whose reply is one number.
package line
