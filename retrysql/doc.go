// Package retrysql repeats transactions.
package retrysql
