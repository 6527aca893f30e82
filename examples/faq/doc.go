// Package faq has the code of docs/faq.md, and tests what it says.
package faq
