// Dashboards has what an operator wants of the metrics of package otelretry: a
// Grafana dashboard, grafana.json, and rules for Prometheus, rules.yml. They take the
// names that the OpenTelemetry exporter for Prometheus gives by default. The
// program prints the dashboard; from the root of the repository:
//
//	go run ./dashboards >dashboards/grafana.json
//	promtool check rules dashboards/rules.yml
//	promtool test rules dashboards/rules_test.yml
//
// What the alerts promise holds at any distance and phase of scrapes. These cases are
// too many to write by hand: cases.go has them, and the program writes their files for
// promtool into a folder. A test runs them all (RETRY_LONG=1 go test ./dashboards):
//
//	go run ./dashboards tests /tmp
//	promtool test rules /tmp/evaluated_every_*.yml
//
// Another test runs the library, scrapes it and holds every query against what was
// there: metrics, labels and their values. docs/observability.md says which query
// answers which question.
package main
