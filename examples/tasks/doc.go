// Package tasks has the code of docs/tasks.md, one func for each task, and runs it.
package tasks
