"""Where sources come from and outputs go to: object stores, signed URLs, and folders of the operator's."""
