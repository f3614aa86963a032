"""From a day of orders and a solver to a plan: routes in the customer's own names, places and units."""

from dree.routing.plan import Plan, Visit

__all__ = ["Plan", "Visit"]
