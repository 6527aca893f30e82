// Dashboards has what an operator wants of the metrics of package otelretry: a
// Grafana dashboard, grafana.json, and rules for Prometheus, rules.yml. They take the
// names that the OpenTelemetry exporter for Prometheus gives by default. The
// program prints the dashboard; from the root of the repository:
//
//	go run ./dashboards >dashboards/grafana.json
//	promtool check rules dashboards/rules.yml
//	promtool test rules dashboards/rules_test.yml
//
// A test runs the library, scrapes it and holds every query against what was
// there: metrics, labels and their values. docs/observability.md says which query
// answers which question.
package main
