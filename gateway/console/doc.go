// Package console is the page on which people see whether promises hold and where
// time and money go. It only reads.
//
//	GET /console/                   all services, devices, what needs attention
//	GET /console/services/NAME      one service: DAG, budgets beside what is spent,
//	                                plan beside what was measured, history
//	GET /console/live?page=PATH     the same as server-sent events
//
// Pages are rendered here with html/template and work without a script: then they
// reload every few seconds. With one, the main part is replaced by what live sends.
// A page is rendered once for all of its viewers, and not at all without any. The latest
// minutes of every service are kept (source.go) so that a page that is opened shows where
// things come from.
//
// What is planned comes from Temporal, what is measured from this gateway; while Temporal is
// unreachable a page shows that, and the last state it read.
//
// Files: source.go what a page is made of, view.go and service.go how that reads,
// drawing.go pictures, page.go and live.go HTTP.
package console
