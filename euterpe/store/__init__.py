"""Keep the state of Euterpe in a SQL database: jobs, events, requesters, secrets and the history."""
