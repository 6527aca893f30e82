// Dashboards has a Grafana dashboard, grafana.json, and rules for Prometheus,
// rules.yml, for the metrics of package otelretry. They use the default names of the
// OpenTelemetry exporter for Prometheus. The program prints the dashboard; from the
// root of the repository:
//
//	go run ./dashboards >dashboards/grafana.json
//	promtool check rules dashboards/rules.yml
//	promtool test rules dashboards/rules_test.yml
//
// The alerts must hold for any interval and phase of scrapes. These cases are too many
// to write by hand: cases.go generates them, and the program writes their files for
// promtool into a folder. A test runs them all (RETRY_LONG=1 go test ./dashboards):
//
//	go run ./dashboards tests /tmp
//	promtool test rules /tmp/evaluated_every_*.yml
//
// Another test runs the library, scrapes it, and compares the metrics, labels and
// values in every query with the scrape. docs/observability.md says which query
// answers which question.
package main
