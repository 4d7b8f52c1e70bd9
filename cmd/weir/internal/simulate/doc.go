// Package simulate replays access logs through the rules of a policy. The engine of weir decides,
// with a clock that follows the log.
//
// If the stamps of a log are whole seconds, the time of a request within its second is unknown.
// Everything is then decided twice: once with all requests at the start of their second, and once
// with the requests spread evenly over it. Every number of a [Report] is a [Range] of both results.
//
// A replay cannot know how clients would have reacted to a denial. Every request of the log counts
// as demand, whatever happened to earlier ones.
package simulate
